/* tokenizer_data - golden data of the tokenizer for its tests. */
#include "tests/tokenizer_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

const char *tokenizer_data_file(const char *name) {
    const char *path = support_path(name);
    char packed[512], bytes[1 << 16];
    struct error err;
    struct reader *reader;
    if (file_exists(path))
        return path;
    snprintf(packed, sizeof packed, TOKENIZER_DATA "%s.gz", name);
    SUPPORT_OK(reader_open(&reader, packed, &err), err);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    for (size_t got = 1; got;) {
        SUPPORT_OK(reader_read(reader, bytes, sizeof bytes, &got, &err), err);
        assert_int_equal(fwrite(bytes, 1, got, out), got);
    }
    assert_int_equal(fclose(out), 0);
    reader_close(reader);
    return path;
}

int tokenizer_data_rows(const char *name, void (*row)(void *self, const json_t *row),
                        void *self) {
    char path[512];
    struct error err;
    struct reader *reader;
    char *line;
    size_t length;
    int count = 0;
    snprintf(path, sizeof path, TOKENIZER_DATA "%s.jsonl.gz", name);
    SUPPORT_OK(reader_open(&reader, path, &err), err);
    for (;; count++) {
        SUPPORT_OK(reader_line(reader, &line, &length, &err), err);
        if (!line)
            break;
        json_t *value = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
        if (!value)
            fail_msg("%s: line %d is no JSON", path, count + 1);
        row(self, value);
        json_decref(value);
    }
    reader_close(reader);
    return count;
}

struct tokenizer *tokenizer_data_gpt2(void) {
    struct tokenizer *t;
    struct error err;
    const char *vocab = tokenizer_data_file("gpt2-vocab.json");
    const char *merges = tokenizer_data_file("merges.txt");
    SUPPORT_OK(tokenizer_load_files(&t, vocab, merges, &err), err);
    return t;
}

struct tokenizer *tokenizer_data_roberta(void) {
    struct tokenizer *t;
    struct error err;
    const char *vocab = tokenizer_data_file("gpt2-vocab.json");
    const char *merges = tokenizer_data_file("merges.txt");
    const char *dict = tokenizer_data_file("dict.txt");
    SUPPORT_OK(tokenizer_load_fairseq(&t, dict, vocab, merges, &err), err);
    return t;
}

void tokenizer_data_assert_ids(const json_t *expected, const int32_t *ids, size_t count,
                               size_t stride, const char *text) {
    if (json_array_size(expected) != count)
        fail_msg("'%s': expected %zu ids, found %zu", text, json_array_size(expected),
                 count);
    for (size_t i = 0; i < count; i++) {
        int32_t id = *(const int32_t *)((const char *)ids + i * stride);
        if (json_integer_value(json_array_get(expected, i)) != id)
            fail_msg("'%s': id %zu: expected %d, found %d", text, i,
                     (int)json_integer_value(json_array_get(expected, i)), id);
    }
}

/* FIPS 180-4. The constants are the first 32 bits of the fractional parts of the square
 * and cube roots of the first primes, computed here. */
struct sha256 {
    uint32_t state[8], constants[64];
};

static uint32_t fraction(double root) {
    return (uint32_t)(uint64_t)((root - (double)(uint64_t)root) * 4294967296.0);
}

/* Bisection to the last bit of a double; 32 bits behind the point are needed. */
static double root_of(int n, int power) {
    double low = 1, high = n;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        double value = power == 2 ? middle * middle : middle * middle * middle;
        if (value < n)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void sha256_start(struct sha256 *s) {
    int found = 0;
    for (int n = 2; found < 64; n++) {
        int divisor = 2;
        while (n % divisor)
            divisor++;
        if (divisor < n)
            continue;
        if (found < 8)
            s->state[found] = fraction(root_of(n, 2));
        s->constants[found++] = fraction(root_of(n, 3));
    }
}

static uint32_t rotate(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static void sha256_block(struct sha256 *s, const unsigned char *block) {
    uint32_t w[64], v[8];
    memcpy(v, s->state, sizeof v);
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t first = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
                         ((v[4] & v[5]) ^ (~v[4] & v[6])) + s->constants[i] + w[i];
        uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
                          ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        s->state[i] += v[i];
}

void tokenizer_data_sha256(const struct ids *ids, char hex[65]) {
    struct sha256 s;
    sha256_start(&s);
    size_t length = ids->count * 4, padded = (length + 9 + 63) / 64 * 64;
    unsigned char *bytes = calloc(padded, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((uint32_t)ids->items[i / 4] >> 8 * (i % 4));
    bytes[length] = 0x80;
    for (size_t i = 0; i < 8; i++)
        bytes[padded - 1 - i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
    for (size_t at = 0; at < padded; at += 64)
        sha256_block(&s, bytes + at);
    free(bytes);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)s.state[i]);
}
