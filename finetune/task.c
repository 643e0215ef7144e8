/* task - finding a task by its name; letting examples go.
 *
 * A name is found by its letters and digits alone; one that is not found is answered with
 * the nearest by edit distance and with the whole list. */
#include "finetune/task.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/options.h"

static enum status name_list(struct task_list tasks, struct buffer *out,
                             struct error *err) {
    for (int i = 0; i < tasks.count; i++)
        TRY(buffer_print(out, err, "%s%s", i > 0 ? ", " : "", tasks.items[i]->name));
    return OK;
}

/* Letters and digits decide, so that "SST-2", "sst_2" and "sst2" are one name. */
static bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a && !isalnum((unsigned char)*a))
            a++;
        while (*b && !isalnum((unsigned char)*b))
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

enum { MOST_TASKS = 64 }; /* that "did you mean" looks at */

static const char *nearest_task(struct task_list tasks, const char *name) {
    const char *names[MOST_TASKS];
    int count = tasks.count < MOST_TASKS ? tasks.count : MOST_TASKS;
    for (int i = 0; i < count; i++)
        names[i] = tasks.items[i]->name;
    return options_nearest(name, names, count);
}

const struct task *task_find(struct task_list tasks, const char *name,
                             struct error *err) {
    for (int i = 0; i < tasks.count; i++)
        if (same_name(tasks.items[i]->name, name))
            return tasks.items[i];
    struct buffer list = {0};
    if (name_list(tasks, &list, err) == OK) {
        const char *near = nearest_task(tasks, name);
        error_set(err, ERR_USAGE, "no task '%s'%s%s%s; the tasks are: %s", name,
                  near ? ", did you mean '" : "", near ? near : "", near ? "'" : "",
                  list.data ? list.data : "none");
    }
    buffer_free(&list);
    return NULL;
}

void examples_free(struct examples *e) {
    free(e->items);
    free(e->path);
    free(e->owned);
    *e = (struct examples){0};
}
