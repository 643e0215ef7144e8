/* pretrain - the command `normglue pretrain`: options in, a plan on stderr, one line of
 * results on stdout.
 *
 * --help lists sizes and arrangements from their tables, with the paper of each; nothing
 * of it is written twice. */
#include "pretrain/pretrain.h"

#include <math.h>
#include <stdio.h>

#include "base/interrupt.h"
#include "pretrain/job.h"

/* Named arrangements and sizes, from their tables. */
static enum status print_names(struct buffer *text, struct error *err) {
    TRY(buffer_print(text, err, "Sizes (--size): %s\n\nArrangements (--arch):\n",
                     config_size_names));
    for (const struct preset *p = config_presets; p->name; p++)
        TRY(buffer_print(text, err, "  %-19s %s\n%22s%s\n", p->name, p->summary, "",
                         p->paper));
    return buffer_print(
        text, err,
        "\nExample:\n  normglue pretrain --arch normformer --size mini --tokenizer tok/"
        " --train books.txt\n      --valid held-out.txt --max-seq-length 128"
        " --output run/\n");
}

static void print_result(const struct job_result *r) {
    const struct trainer_result *t = &r->training;
    printf("%lld steps, training loss %.4f", (long long)t->step, t->train_loss);
    if (!isnan(r->unigram_loss) && t->last.count)
        printf(", validation loss %.4f, perplexity %.2f (by frequency alone %.2f)",
               t->last.values[0].value, exp(t->last.values[0].value),
               exp(r->unigram_loss));
    printf("\n");
}

int pretrain_command(int argc, char **argv) {
    struct command command = {
        .name = "normglue pretrain",
        .usage = "--tokenizer DIR --train FILE... [--valid FILE...] --output DIR",
        .summary =
            "Pretrains a masked language model on plain text. The output is a "
            "Hugging Face directory; an interrupted run goes on with --resume auto.",
        .options = pretrain_option_table,
    };
    struct pretrain_options options = {0};
    struct job_result result = {0};
    struct buffer names = {0};
    struct error err = {0};
    bool help = false;
    enum status status = options_parse(&command, &options, argc, argv, NULL, &help, &err);
    if (status == OK && help) {
        status = print_names(&names, &err);
        command.epilog = names.data;
        options_print_help(&command);
    } else if (status == OK) {
        interrupt_install();
        status = job_run(&command, &options, &notices_stderr, &result, &err);
        if (status == OK)
            print_result(&result);
    }
    buffer_free(&names);
    return options_finish(&command, &options, status, &err);
}
