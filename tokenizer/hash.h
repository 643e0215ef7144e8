/* hash - 64-bit hashes of bytes and of pairs for the tables of the tokenizer.
 *
 * Bytes are mixed in eight at a time by two multiplications, the length first, so that
 * "a" and "a\0" differ. Not keyed: a text made to collide makes a table slow, never an
 * answer wrong. The values stay inside one process, but for a tokenizer's fingerprint,
 * which token shards and unfinished trainings carry: changing them makes those differ. */
#ifndef TOKENIZER_HASH_H
#define TOKENIZER_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Multiplies and folds: every input bit reaches the low bits. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32 ^ b) * 0xA0761D6478BD642Fu;
    return x ^ x >> 32;
}

/* Of any bytes; `bytes` must not be NULL unless there are none. */
static inline uint64_t hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = length, eight = 0;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&eight, at, 8);
        hash = hash_mix(hash, eight);
    }
    eight = 0;
    memcpy(&eight, at, length);
    return hash_mix(hash, eight);
}

/* For long stretches, another value: sixteen bytes a multiplication to 128 bits, whose
 * halves are folded together, in four chains side by side. */
static inline uint64_t hash_long(const void *bytes, size_t length) {
    __extension__ typedef unsigned __int128 product;
    const unsigned char *at = bytes;
    uint64_t lanes[4] = {length, 1, 2, 3}, words[8];
    for (; length >= sizeof words; at += sizeof words, length -= sizeof words) {
        memcpy(words, at, sizeof words);
        for (int i = 0; i < 4; i++) {
            const product p = (product)(words[2 * i] ^ lanes[i]) *
                              (words[2 * i + 1] ^ 0x9E3779B97F4A7C15u);
            lanes[i] = (uint64_t)p ^ (uint64_t)(p >> 64);
        }
    }
    return hash_mix(hash_bytes(lanes, sizeof lanes), hash_bytes(at, length));
}

#endif
