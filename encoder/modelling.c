/* modelling - the Python files that let transformers open a model_type `normglue`.
 *
 * .incbin puts the files' bytes into the program, so that it needs no installed data. The
 * path is seen from the repository's root, where make runs. */
#include "encoder/modelling.h"

#include <stddef.h>
#include <string.h>

#include "base/file.h"

/* The assembler puts each file between two symbols. */
#define EMBED(symbol, path)                                                        \
    __asm__(".section .rodata\n" #symbol "_begin:\n.incbin \"" path "\"\n" #symbol \
            "_end:\n.byte 0\n.previous\n");                                        \
    extern const char symbol##_begin[] __attribute__((visibility("hidden")));      \
    extern const char symbol##_end[] __attribute__((visibility("hidden")))

EMBED(modelling_configuration, "encoder/modelling/configuration_normglue.py");
EMBED(modelling_modeling, "encoder/modelling/modeling_normglue.py");

static const struct {
    const char *name, *begin, *end;
} files[] = {
    {"configuration_normglue.py", modelling_configuration_begin,
     modelling_configuration_end},
    {"modeling_normglue.py", modelling_modeling_begin, modelling_modeling_end},
};

#define MODULE "modeling_normglue."
const char *const modelling_auto_map =
    "{\n"
    "    \"AutoConfig\": \"configuration_normglue.NormGlueConfig\",\n"
    "    \"AutoModel\": \"" MODULE
    "NormGlueModel\",\n"
    "    \"AutoModelForMaskedLM\": \"" MODULE
    "NormGlueForMaskedLM\",\n"
    "    \"AutoModelForSequenceClassification\": \"" MODULE
    "NormGlueForSequenceClassification\"\n"
    "  }";

/* transformers has classes of its own for two model types; all others need ours. */
bool modelling_is_needed(const struct config *c) {
    return !strcmp(c->model_type, "normglue");
}

enum status modelling_write(const char *directory, struct error *err) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_BYTES];
        TRY(file_join(path, directory, files[i].name, err));
        TRY(file_write(path, files[i].begin, (size_t)(files[i].end - files[i].begin),
                       err));
    }
    return OK;
}
