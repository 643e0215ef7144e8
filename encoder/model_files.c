/* model_files - what a model directory consists of, and copies of it.
 *
 * A model that is converted or folded keeps its tokenizer: the files are copied byte for
 * byte. */
#include "encoder/model_files.h"

#include <stddef.h>

#include "base/file.h"

static const char *const of_tokenizer[] = {"vocab.json",
                                           "merges.txt",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           NULL};
static const char *const of_model[] = {"config.json", "configuration_normglue.py",
                                       "modeling_normglue.py", "model.safetensors", NULL};

bool model_files_hold(const char *directory, const char *name) {
    char path[PATH_BYTES];
    struct error ignored;
    return file_join(path, directory, name, &ignored) == OK && file_exists(path);
}

static enum status copy_file(const char *from, const char *to, const char *name,
                             struct error *err) {
    char source[PATH_BYTES], target[PATH_BYTES];
    struct mapping m;
    TRY(file_join(source, from, name, err));
    TRY(file_join(target, to, name, err));
    TRY(file_map(&m, source, err));
    enum status status = file_write(target, m.data, m.size, err);
    file_unmap(&m);
    return status;
}

static enum status copy_files(const char *from, const char *to, const char *const *names,
                              struct error *err) {
    for (; *names; names++)
        if (model_files_hold(from, *names))
            TRY(copy_file(from, to, *names, err));
    return OK;
}

enum status model_files_copy_tokenizer(const char *from, const char *to,
                                       struct error *err) {
    return copy_files(from, to, of_tokenizer, err);
}

enum status model_files_copy(const char *from, const char *to, struct error *err) {
    TRY(copy_files(from, to, of_tokenizer, err));
    return copy_files(from, to, of_model, err);
}
