/* test_image - images give what the files give, and what is wrong with one is harmless.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/tokenizer_data.h"
#include "tokenizer/hash.h"
#include "tokenizer/image.h"

enum { HEADER = 64, BODY_HASH = 24 }; /* of an image: its size, where the hash lies */

static const char *const names[] = {"vocab.json", "merges.txt"};

static void copy_into(const char *directory, const char *name, const char *from) {
    struct error err;
    struct buffer bytes = support_read(from);
    SUPPORT_OK(file_make_directory(directory, &err), err);
    SUPPORT_OK(file_write(support_in(directory, name), bytes.data, bytes.length, &err),
               err);
    buffer_free(&bytes);
}

/* A directory with GPT-2's files, and a cache of its own from now on. */
static const char *new_directory(void) {
    const char *directory = support_new_path();
    copy_into(directory, names[0], tokenizer_data_file("gpt2-vocab.json"));
    copy_into(directory, names[1], tokenizer_data_file("merges.txt"));
    setenv("NORMGLUE_CACHE", support_new_path(), 1);
    return directory;
}

static struct image find(const char *directory) {
    struct image image;
    const char *paths[2];
    for (int i = 0; i < 2; i++)
        paths[i] = support_in(directory, names[i]);
    assert_true(image_find(&image, paths, 2));
    return image;
}

static struct tokenizer *load(const char *directory) {
    struct tokenizer *t;
    struct error err;
    SUPPORT_OK(tokenizer_load(&t, directory, NULL, &err), err);
    return t;
}

static struct image written(const char *directory) {
    const char *paths[2];
    for (int i = 0; i < 2; i++)
        paths[i] = support_in(directory, names[i]);
    struct image image = find(directory);
    struct tokenizer *t = load(directory);
    image_write(&image, t, paths, 2);
    tokenizer_free(t);
    assert_true(file_exists(image.path));
    return image;
}

static const char text[] =
    "The l\xC3\xB6"
    "wenmensch isn't 2,048 years  old<|endoftext|>\n"
    "\xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\xBA internationalization";

static struct ids encoded(const struct tokenizer *t) {
    struct ids ids = {0};
    struct error err;
    SUPPORT_OK(tokenizer_encode(t, NULL, text, sizeof text - 1, &ids, &err), err);
    return ids;
}

static void assert_same(const struct tokenizer *a, const struct tokenizer *b) {
    struct ids x = encoded(a), y = encoded(b);
    assert_int_equal(tokenizer_fingerprint(a), tokenizer_fingerprint(b));
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.items, y.items, x.count * sizeof *x.items);
    struct buffer back = {0};
    struct error err;
    SUPPORT_OK(tokenizer_decode(a, x.items, x.count, false, &back, &err), err);
    assert_string_equal(back.data, text);
    buffer_free(&back);
    ids_free(&x);
    ids_free(&y);
}

static void an_image_gives_what_the_files_give(void **state) {
    (void)state;
    const char *directory = new_directory();
    struct tokenizer *first = load(directory), *second = load(directory);
    assert_null(first->image.data);
    assert_non_null(second->image.data);
    assert_same(first, second);
    tokenizer_free(first);
    tokenizer_free(second);
}

static void tokens_can_be_added_to_an_image(void **state) {
    (void)state;
    const char *directory = new_directory();
    struct tokenizer *both[] = {load(directory), load(directory)};
    struct error err;
    struct added_token token = {.content = (char *)(uintptr_t) "wenmensch", .length = 9};
    for (int i = 0; i < 2; i++)
        SUPPORT_OK(tokenizer_add_tokens(both[i], &token, 1, &err), err);
    assert_int_equal(tokenizer_find(both[1], "wenmensch"), 50257);
    assert_same(both[0], both[1]);
    struct tokenizer *third = load(directory); /* nothing of that is in the file */
    assert_int_equal(tokenizer_find(third, "wenmensch"), -1);
    tokenizer_free(both[0]);
    tokenizer_free(both[1]);
    tokenizer_free(third);
}

static void changed_files_are_read_anew(void **state) {
    (void)state;
    const char *directory = new_directory();
    struct tokenizer *t = load(directory);
    const int32_t merges = tokenizer_facts(t).merges;
    tokenizer_free(t);
    const char *path = support_in(directory, "merges.txt");
    struct error err;
    struct buffer bytes = support_read(path);
    bytes.data[--bytes.length] = 0; /* the last line, but not its length in the file */
    while (bytes.data[bytes.length - 1] != '\n')
        bytes.data[--bytes.length] = 0;
    SUPPORT_OK(file_write(path, bytes.data, bytes.length, &err), err);
    buffer_free(&bytes);
    t = load(directory);
    assert_null(t->image.data);
    assert_int_equal(tokenizer_facts(t).merges, merges - 1);
    tokenizer_free(t);
}

static bool can_read(const struct image *image) {
    struct tokenizer *t = tokenizer_new();
    assert_non_null(t);
    const bool is_read = image_read(image, t);
    if (is_read) { /* then it is sound: nothing here may go out of bounds */
        struct ids ids = encoded(t);
        struct buffer back = {0};
        struct error err;
        (void)!tokenizer_decode(t, ids.items, ids.count, false, &back, &err);
        buffer_free(&back);
        ids_free(&ids);
    }
    tokenizer_free(t);
    return is_read;
}

static void cut_or_changed_images_are_passed_over(void **state) {
    (void)state;
    const struct image image = written(new_directory());
    struct buffer good = support_read(image.path);
    struct error err;
    assert_true(can_read(&image));
    for (size_t i = 0; i < 40; i++) {
        const size_t cut = i < 4 ? 40 * i : good.length / 37 * (i - 3);
        SUPPORT_OK(file_write(image.path, good.data, cut, &err), err);
        assert_false(can_read(&image));
    }
    for (size_t i = 0; i < 40; i++) {
        const size_t at = i < 8 ? 8 * i : good.length / 40 * i;
        if (at >= 48 && at < HEADER)
            continue; /* unused */
        good.data[at] ^= 4;
        SUPPORT_OK(file_write(image.path, good.data, good.length, &err), err);
        assert_false(can_read(&image));
        good.data[at] ^= 4;
    }
    buffer_free(&good);
}

/* With a hash that fits, as no accident makes it. */
static void no_image_leads_out_of_bounds(void **state) {
    (void)state;
    const struct image image = written(new_directory());
    struct buffer good = support_read(image.path);
    struct error err;
    uint64_t random = 1;
    int refused = 0;
    for (int i = 0; i < 120; i++) {
        random = hash_mix(random, (uint64_t)i);
        const size_t body = good.length - HEADER;
        const size_t at = HEADER + (i < 60 ? random % 2048 : random % (body - 8)) / 4 * 4;
        uint64_t kept, value = i % 3 ? random : UINT64_MAX;
        memcpy(&kept, good.data + at, 8);
        memcpy(good.data + at, &value, 8);
        const uint64_t hash = hash_long(good.data + HEADER, body);
        memcpy(good.data + BODY_HASH, &hash, 8);
        SUPPORT_OK(file_write(image.path, good.data, good.length, &err), err);
        refused += !can_read(&image);
        memcpy(good.data + at, &kept, 8);
    }
    assert_in_range(refused, 30, 119);
    buffer_free(&good);
}

static void a_cache_that_cannot_be_is_none(void **state) {
    (void)state;
    const char *directory = new_directory();
    const char *const places[] = {"", "/proc/none", tokenizer_data_file("merges.txt")};
    for (int i = 0; i < 3; i++) {
        setenv("NORMGLUE_CACHE", places[i], 1);
        struct tokenizer *first = load(directory), *second = load(directory);
        assert_null(second->image.data);
        tokenizer_free(first);
        tokenizer_free(second);
    }
}

static void the_oldest_images_go(void **state) {
    (void)state;
    const char *directory = new_directory();
    const char *cache = getenv("NORMGLUE_CACHE");
    struct error err;
    char name[64], first[PATH_BYTES];
    SUPPORT_OK(file_make_directory(cache, &err), err);
    for (int i = 0; i < IMAGE_MOST; i++) {
        snprintf(name, sizeof name, "tokenizer-%d.image", i);
        const char *path = support_in(cache, name);
        SUPPORT_OK(file_write(path, "old", 3, &err), err);
        const struct timespec times[] = {{1000 + i, 0}, {1000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        if (i == 0)
            snprintf(first, sizeof first, "%s", path);
    }
    tokenizer_free(load(directory));
    assert_false(file_exists(first));
    assert_true(file_exists(support_in(cache, name)));
    struct tokenizer *t = load(directory);
    assert_non_null(t->image.data);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_gives_what_the_files_give),
        cmocka_unit_test(tokens_can_be_added_to_an_image),
        cmocka_unit_test(changed_files_are_read_anew),
        cmocka_unit_test(cut_or_changed_images_are_passed_over),
        cmocka_unit_test(no_image_leads_out_of_bounds),
        cmocka_unit_test(a_cache_that_cannot_be_is_none),
        cmocka_unit_test(the_oldest_images_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
