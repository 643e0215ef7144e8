/* test_safetensors - the file format against the Python library's files and vectors. */
#include "encoder/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

#define MIXED "tests/data/checkpoint/mixed.safetensors"

static struct error err;

/* length, header, data as one file in memory; the exact size lets ASan see overruns. */
static enum status parse(struct safetensors *s, uint64_t length, const char *header,
                         size_t header_bytes, const void *data, size_t data_bytes) {
    size_t size = 8 + header_bytes + data_bytes;
    unsigned char *bytes = malloc(size);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, header_bytes);
    if (data_bytes)
        memcpy(bytes + 8 + header_bytes, data, data_bytes);
    enum status status = safetensors_parse(s, "memory", bytes, size, &err);
    if (status == OK)
        safetensors_close(s);
    free(bytes);
    return status;
}

static enum status parse_text(const char *header, size_t data_bytes) {
    struct safetensors s;
    static const char zeros[64];
    return parse(&s, strlen(header), header, strlen(header), zeros, data_bytes);
}

static void files_of_the_python_library_are_written_again_byte_for_byte(void **state) {
    (void)state;
    static const char *const paths[] = {
        MIXED, "tests/data/checkpoint/roberta_mlm/model.safetensors"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct safetensors s;
        const char *copy = support_path("copy.safetensors");
        SUPPORT_OK(safetensors_open(&s, paths[i], &err), err);
        for (int j = 0; j < s.count / 2; j++) { /* their order does not matter */
            struct safetensor swapped = s.items[j];
            s.items[j] = s.items[s.count - 1 - j];
            s.items[s.count - 1 - j] = swapped;
        }
        SUPPORT_OK(safetensors_write(copy, s.items, s.count, &err), err);
        struct buffer expected = support_read(paths[i]), found = support_read(copy);
        assert_int_equal(expected.length, found.length);
        assert_memory_equal(expected.data, found.data, found.length);
        buffer_free(&expected);
        buffer_free(&found);
        safetensors_close(&s);
    }
}

static void every_type_of_number_converts_exactly(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double unit; /* spacing of the type near 1 */
    } rows[] = {
        {"a.f64", 0x1p-52}, {"z.f32", 0x1p-23}, {"half", 0x1p-10}, {"brain", 0x1p-7}};
    struct safetensors s;
    SUPPORT_OK(safetensors_open(&s, MIXED, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double f64[12];
        float f32[12];
        const struct safetensor *t = safetensors_find(&s, rows[i].name);
        assert_true(t && t->rank == 2 && t->shape[0] == 3 && t->shape[1] == 4);
        SUPPORT_OK(safetensors_to_f64(&s, t, f64, &err), err);
        SUPPORT_OK(safetensors_to_f32(&s, t, f32, &err), err);
        for (int j = 0; j < 12; j++) {
            double exact = (j - 6) / 7.0;
            assert_true(fabs(f64[j] - exact) <= rows[i].unit / 2 * fabs(exact));
            assert_true(f32[j] == (float)f64[j]);
        }
    }
    safetensors_close(&s);
}

static void halves_keep_zeros_subnormals_and_infinity(void **state) {
    (void)state;
    struct safetensors s;
    double v[6];
    SUPPORT_OK(safetensors_open(&s, MIXED, &err), err);
    SUPPORT_OK(safetensors_to_f64(&s, safetensors_find(&s, "half.special"), v, &err),
               err);
    assert_true(v[0] == 0 && !signbit(v[0]) && v[1] == 0 && signbit(v[1]));
    assert_true(v[2] == 0x1p-24 && v[3] == -1023 * 0x1p-24 && v[4] == 65504 &&
                isinf(v[5]));
    assert_int_equal(safetensors_to_f64(&s, safetensors_find(&s, "scalar"), v, &err),
                     ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*\"scalar\": expected F32, *, found I64");
    safetensors_close(&s);
}

static void names_are_unescaped_and_found(void **state) {
    (void)state;
    struct safetensors s;
    SUPPORT_OK(safetensors_open(&s, MIXED, &err), err);
    assert_non_null(safetensors_find(&s, "quote \" back\\slash \n tab\t \xC3\xA4"));
    assert_null(safetensors_find(&s, "quote"));
    const struct safetensor *t = safetensors_find(&s, "scalar");
    assert_true(t && t->rank == 0 && t->count == 1 && t->bytes == 8);
    t = safetensors_find(&s, "empty");
    assert_true(t && t->count == 0 && t->bytes == 0);
    safetensors_close(&s);
}

#define U8(shape, offsets) \
    "{\"t\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}}"

/* What the reference accepts: python safetensors 0.8, tried with the same texts. */
static void what_the_reference_accepts_is_read(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
    } rows[] = {
        {"{}", 0},
        {"\t\n {} \r\n\t ", 0},
        {"{\"__metadata__\":{}}", 0},
        {"{\"__metadata__\":null}", 0},
        {"{\"__metadata__\":{\"a\":\"b\",\"c\":\"\"}}", 0},
        {U8("4", "0,4"), 4},
        {U8("", "0,1"), 1},
        {U8("0", "0,0"), 0},
        {U8("0,4611686018427387904,4", "0,0"), 0},
        {U8(" 2 , 2 ", " 0 , 4 "), 4},
        {"{\"t\":{\"data_offsets\":[0,1],\"x\":{\"y\":[1,-2.5e3,null,true]},\"shape\":[1]"
         ","
         "\"dtype\":\"U8\"}}",
         1},
        {"{\"\\u00e4\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,"
         "1]"
         "}}",
         1},
        {"{\"t\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (parse_text(rows[i].header, rows[i].data) != OK)
            fail_msg("%s: %s", rows[i].header, err.text);
}

static void what_the_reference_refuses_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *sentence;
    } rows[] = {
        {"", 0, "memory: header: expected '{', found its end"},
        {"[]", 0, "memory: header byte 0: expected '{', found ["},
        {"{", 0, "*"},
        {"{} x", 0, "*expected only spaces after the header, found x"},
        {"{\"\xFF\":1}", 0, "*header byte 2 is not UTF-8"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "*"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "*__metadata__ stands twice"},
        {U8("4", "1,5"), 5, "*\"t\": expected its data at offset 0, found 1"},
        {U8("4", "4,0"), 4, "*\"t\": data_offsets begin at 4 and end at 0"},
        {U8("4", "0,4"), 3,
         "memory: the file has 3 bytes of data, but tensor \"t\" ends at 4"},
        {U8("4", "0,4"), 5, "*the file has 5 bytes of data, its header promises 4"},
        {U8("3", "0,4"), 4, "*its shape needs 24 bits, its data_offsets hold 4 bytes"},
        {U8("2,18446744073709551614", "0,4"), 4, "*expected a number below 2^63*"},
        {U8("2,9223372036854775807", "0,4"), 4, "*\"t\": its shape overflows"},
        {U8("4611686018427387904,4", "0,0"), 0, "*its shape overflows"},
        {U8("4611686018427387904,4,0", "0,0"), 0, "*its shape overflows"},
        {U8("4294967296,4294967296", "0,0"), 0, "*its shape overflows"},
        {U8("2305843009213693952", "0,0"), 0, "*its shape overflows"},
        {U8("-1", "0,0"), 0, "*expected a whole number, found -"},
        {U8("-0", "0,0"), 0, "*expected a whole number, found -"},
        {U8("1.0", "0,1"), 1, "*expected a whole number, found ."},
        {U8("1e0", "0,1"), 1, "*expected a whole number, found e"},
        {U8("01", "0,1"), 1, "*expected a whole number*"},
        {U8("1,", "0,1"), 1, "*"},
        {U8("1", "0"), 1, "*expected two data_offsets"},
        {U8("1", "0,1,1"), 1, "*expected no more than 2 data_offsets, found 1"},
        {U8("1", "-1,0"), 1, "*"},
        {U8("1,1,1,1,1,1,1,1,1", "0,1"), 1, "*expected no more than 8 dimensions*"},
        {"{\"t\":{}}", 0, "*\"t\": expected dtype, shape and data_offsets"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}",
         1, "*\"t\": a key stands twice"},
        {"{\"t\":{\"dtype\":\"U9\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "*\"t\": unknown dtype \"U9\""},
        {"{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "*bits*"},
        {"{\"t\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "*neither NUL*"},
        {"{\"\\ud83d\":{}}", 0, "*"},
        {"{\"t\":{\"x\":[[[[[[[[[[]]]]]]]]]]}}", 0, "*no more than 8 levels*"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (parse_text(rows[i].header, rows[i].data) != ERR_INPUT)
            fail_msg("accepted: %s", rows[i].header);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
}

/* The reference keeps the last of two tensors with one name; we refuse. */
static void duplicate_names_and_overlaps_are_refused(void **state) {
    (void)state;
#define TENSOR(name, offsets) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" offsets "]}"
    static const struct {
        const char *header, *sentence;
    } rows[] = {
        {"{" TENSOR("a", "0,1") "," TENSOR("a", "1,2") "}", "*\"a\" stands twice"},
        {"{" TENSOR("a", "0,1") "," TENSOR("\\u0061", "1,2") "}", "*\"a\" stands twice"},
        {"{" TENSOR("a", "0,1") "," TENSOR("b", "0,1") "}", "*expected its data at *"},
        {"{" TENSOR("a", "1,2") "}", "*expected its data at offset 0, found 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse_text(rows[i].header, 2), ERR_INPUT);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
}

static void lengths_that_lie_are_refused(void **state) {
    (void)state;
    struct safetensors s;
    static const struct {
        uint64_t length;
        const char *sentence;
    } rows[] = {
        {3, "memory: the file has 10 bytes, its header promises 11"},
        {100000000, "memory: the file has 10 bytes, its header promises 100000008"},
        {100000001, "*expected a header of at most 100000000 bytes, found 100000001"},
        {UINT64_MAX, "*expected a header of at most *"},
        {UINT64_MAX - 7, "*expected a header of at most *"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&s, rows[i].length, "{}", 2, NULL, 0), ERR_INPUT);
        support_assert_error(&err, ERR_INPUT, rows[i].sentence);
    }
    assert_int_equal(
        safetensors_parse(&s, "memory", (const unsigned char *)"1234567", 7, &err),
        ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "memory: expected at least 8 bytes*, found 7");
}

/* A million tensors in one header must not keep the reader busy. */
static void bloated_headers_are_refused(void **state) {
    (void)state;
    struct buffer text = {0};
    SUPPORT_OK(buffer_print(&text, &err, "{"), err);
    for (int i = 0; i < 200000; i++)
        SUPPORT_OK(
            buffer_print(&text, &err,
                         "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":"
                         "[0,0]}",
                         i ? "," : "", i),
            err);
    SUPPORT_OK(buffer_print(&text, &err, "}"), err);
    struct safetensors s;
    assert_int_equal(parse(&s, text.length, text.data, text.length, NULL, 0), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT,
                         "memory: header holds more than 1000000 values");
    buffer_free(&text);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    struct buffer file = support_read(MIXED);
    for (size_t length = 0; length < file.length; length++) {
        struct safetensors s;
        unsigned char *cut = malloc(length + 1); /* freed copies let ASan see overruns */
        memcpy(cut, file.data, length);
        if (safetensors_parse(&s, "cut", cut, length, &err) != ERR_INPUT)
            fail_msg("accepted %zu of %zu bytes", length, file.length);
        free(cut);
    }
    buffer_free(&file);
}

static bool same_meaning(const struct safetensors *a, const struct safetensors *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) {
        const struct safetensor *x = &a->items[i];
        const struct safetensor *y = safetensors_find(b, x->name);
        same = y && !strcmp(x->dtype, y->dtype) && x->rank == y->rank &&
               !memcmp(x->shape, y->shape, sizeof x->shape) && x->bytes == y->bytes;
    }
    return same;
}

/* A flip may turn one valid header into another (a letter of a name, F32 into U32), which
 * only the manifest can see; whatever is accepted must still cover the file exactly. */
static void every_flipped_bit_is_survived(void **state) {
    (void)state;
    struct safetensors original, s;
    struct buffer file = support_read(MIXED);
    SUPPORT_OK(safetensors_open(&original, MIXED, &err), err);
    uint64_t header;
    memcpy(&header, file.data, 8);
    int refused = 0, same = 0, other = 0;
    for (size_t bit = 0; bit < 8 * (8 + (size_t)header); bit++) {
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        if (safetensors_parse(&s, "flipped", (unsigned char *)file.data, file.length,
                              &err) != OK) {
            refused++;
        } else {
            size_t bytes = 0;
            for (int i = 0; i < s.count; i++)
                bytes += s.items[i].bytes;
            assert_int_equal(bytes, file.length - 8 - (size_t)header);
            *(same_meaning(&original, &s) ? &same : &other) += 1;
            safetensors_close(&s);
        }
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    print_message("%d flips refused, %d without effect, %d of names and types\n", refused,
                  same, other);
    assert_true(refused > 4 * (same + other));
    buffer_free(&file);
    safetensors_close(&original);
}

static void what_is_no_file_is_an_error(void **state) {
    (void)state;
    struct safetensors s;
    assert_int_equal(safetensors_open(&s, support_path("absent"), &err), ERR_INPUT);
    assert_int_equal(safetensors_open(&s, support_folder(), &err), ERR_INPUT);
    assert_int_equal(safetensors_open(&s, support_write("void", ""), &err), ERR_INPUT);
    support_assert_error(&err, ERR_INPUT, "*void: expected at least 8 bytes*, found 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_the_python_library_are_written_again_byte_for_byte),
        cmocka_unit_test(every_type_of_number_converts_exactly),
        cmocka_unit_test(halves_keep_zeros_subnormals_and_infinity),
        cmocka_unit_test(names_are_unescaped_and_found),
        cmocka_unit_test(what_the_reference_accepts_is_read),
        cmocka_unit_test(what_the_reference_refuses_is_refused),
        cmocka_unit_test(duplicate_names_and_overlaps_are_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(bloated_headers_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_survived),
        cmocka_unit_test(what_is_no_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
