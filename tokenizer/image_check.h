/* image_check - does a tokenizer whose memory came from a file stay inside of it? */
#ifndef TOKENIZER_IMAGE_CHECK_H
#define TOKENIZER_IMAGE_CHECK_H

#include "tokenizer/parts.h"

/* Are all indices, ids, flags and sizes in range, so that nothing that is done with the
 * tokenizer leads out of bounds? Its ids may still be wrong: that is what the hash of an
 * image is for. */
bool image_check(const struct tokenizer *t);
/* The same of an added token, but for its content and id. */
bool image_check_added(const struct added_token *token);

#endif
