/* prompt_list.c - see prompt_list.h. */
#include "harness/plan/prompt_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"

enum { MAX_LINES = 100000 };

static enum kvr_status no_memory(const char *path)
{
    return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the prompts", path);
}

static enum kvr_status split(struct kvr_prompt_list *l, const char *path)
{
    size_t lines = 1;
    int number = 0;

    for (const char *s = l->all; *s; s++)
        lines += *s == '\n';
    if (lines > MAX_LINES)
        return kvr_fail(KVR_EINVAL, "%s: the file has %zu lines of prompts, at most %d are allowed",
                        path, lines, MAX_LINES);
    l->line = calloc(lines, sizeof *l->line);
    if (!l->line)
        return no_memory(path);
    for (char *rest = l->all, *text; (text = strsep(&rest, "\n")) != NULL;) {
        struct kvr_line *line = &l->line[l->n];

        number++;
        text[strcspn(text, "\r")] = 0;
        if (text[strspn(text, " \t")] == 0)
            continue;
        snprintf(line->id, sizeof line->id, "p%04d", ++l->n);
        line->text = text;
        line->number = number;
    }
    return l->n ? KVR_OK
                : kvr_fail(KVR_EINVAL, "%s: all %d lines are blank; need one prompt per line", path,
                           number);
}

enum kvr_status kvr_prompt_list_read(struct kvr_prompt_list *l, const char *path)
{
    size_t size = 0;
    enum kvr_status st;
    bool memory;
    ssize_t n;
    FILE *f;

    memset(l, 0, sizeof *l);
    KVR_TRY(kvr_infile_open_text(&f, path));
    errno = 0;
    n = getdelim(&l->all, &size, 0, f);
    memory = n < 0 && !feof(f) && errno == ENOMEM;
    fclose(f);
    if (memory)
        st = no_memory(path);
    else
        st = n < 0 ? kvr_fail(KVR_EINVAL, "%s: the file is empty; need one prompt per line", path)
                   : split(l, path);
    if (st != KVR_OK)
        kvr_prompt_list_free(l);
    return st;
}

void kvr_prompt_list_free(struct kvr_prompt_list *l)
{
    free(l->all);
    free(l->line);
    memset(l, 0, sizeof *l);
}
