/* tokenizer_save - a tokenizer as the files of a Hugging Face directory.
 *
 * Each file is made in memory and replaces the old one whole (base/file). Five files
 * cannot change at once: who overwrites a tokenizer while another process loads it may
 * mix two. */
#include "base/file.h"
#include "tokenizer/config_files.h"
#include "tokenizer/parts.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocab_file.h"

static enum status add_vocab(const struct tokenizer *t, struct buffer *out,
                             struct error *err) {
    return vocab_file_add_json(out, &t->vocab, err);
}

static enum status add_merges(const struct tokenizer *t, struct buffer *out,
                              struct error *err) {
    return vocab_file_add_merges(out, &t->vocab, &t->bpe, err);
}

static enum status add_tokenizer_json(const struct tokenizer *t, struct buffer *out,
                                      struct error *err) {
    return tokenizer_json_add(t, true, NULL, NULL, out, err);
}

enum status tokenizer_save(const struct tokenizer *t, const char *directory,
                           struct error *err) {
    static const struct {
        const char *name;
        enum status (*add)(const struct tokenizer *, struct buffer *, struct error *);
    } files[] = {{"vocab.json", add_vocab},
                 {"merges.txt", add_merges},
                 {"tokenizer.json", add_tokenizer_json}};
    char path[PATH_BYTES];
    TRY(file_make_directory(directory, err));
    struct buffer text = {0};
    enum status status = OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == OK; i++) {
        buffer_clear(&text);
        status = files[i].add(t, &text, err);
        if (status == OK)
            status = file_join(path, directory, files[i].name, err);
        if (status == OK)
            status = file_write(path, text.data, text.length, err);
    }
    buffer_free(&text);
    return status == OK ? config_files_write(t, directory, err) : status;
}
