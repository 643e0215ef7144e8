/* test_modelling - the files that transformers needs stand beside the weights. */
#include "encoder/modelling.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/support.h"

static struct error err;

static void only_what_transformers_does_not_know_gets_them(void **state) {
    (void)state;
    static const struct {
        const char *arch;
        bool needed;
    } rows[] = {{"postln", false}, {"preln", false}, {"normformer", true}, {"rms", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c;
        char directory[PATH_BYTES];
        snprintf(directory, sizeof directory, "%s", support_path(rows[i].arch));
        SUPPORT_OK(file_make_directory(directory, &err), err);
        config_default(&c);
        SUPPORT_OK(config_set_arch(&c, rows[i].arch, &err), err);
        SUPPORT_OK(config_check(&c, &err), err);
        SUPPORT_OK(config_write(&c, directory, "MaskedLM", &err), err);
        char path[PATH_BYTES];
        SUPPORT_OK(file_join(path, directory, "modeling_normglue.py", &err), err);
        assert_int_equal(file_exists(path), rows[i].needed);
        SUPPORT_OK(file_join(path, directory, "config.json", &err), err);
        struct buffer text = support_read(path);
        assert_int_equal(strstr(text.data, "\"auto_map\"") != NULL, rows[i].needed);
        buffer_free(&text);
    }
}

static void the_files_are_those_of_the_source(void **state) {
    (void)state;
    static const char *const names[] = {"configuration_normglue.py",
                                        "modeling_normglue.py"};
    SUPPORT_OK(modelling_write(support_folder(), &err), err);
    for (int i = 0; i < 2; i++) {
        char source[128];
        snprintf(source, sizeof source, "encoder/modelling/%s", names[i]);
        struct buffer expected = support_read(source),
                      found = support_read(support_path(names[i]));
        assert_int_equal(expected.length, found.length);
        assert_memory_equal(expected.data, found.data, found.length);
        buffer_free(&expected);
        buffer_free(&found);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_transformers_does_not_know_gets_them),
        cmocka_unit_test(the_files_are_those_of_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
