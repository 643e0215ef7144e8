/* image - a loaded tokenizer as one file that is mapped, to load in less than 1 ms.
 *
 * Images lie in the folder that NORMGLUE_CACHE names (empty: none are kept), else in
 * $XDG_CACHE_HOME/normglue or ~/.cache/normglue. They are a copy that may be deleted at
 * any time: one that is missing, damaged, of another program or of files that have
 * changed since is passed over, and what cannot be written is not written, without a
 * word. An image stands for the content of its files, not for their dates: it is of use
 * only if a 64-bit hash of all of them is the same. */
#ifndef TOKENIZER_IMAGE_H
#define TOKENIZER_IMAGE_H

#include "tokenizer/parts.h"

enum {
    IMAGE_LEAST_SOURCE = 1 << 18, /* bytes; smaller files load as fast by themselves */
    IMAGE_MOST = 8                /* images kept; the oldest goes */
};

struct image {
    char folder[PATH_BYTES], path[PATH_BYTES]; /* the image in its folder */
    uint64_t build;                            /* of this program */
    uint64_t source; /* hash of the files, in which order they were given included */
    uint64_t source_bytes;
};

/* Reads the files that a tokenizer is made of (those that are there) and says where its
 * image lies. False: there can be none. */
bool image_find(struct image *image, const char *const *paths, int count);
/* Fills an empty tokenizer. False: there is no valid image, and the tokenizer is as it
 * was. */
bool image_read(const struct image *image, struct tokenizer *t);
/* Writes the image of a tokenizer just loaded from `paths`, unless they have changed
 * since image_find. */
void image_write(const struct image *image, const struct tokenizer *t,
                 const char *const *paths, int count);

#endif
