/* suite_lines.c - converts a text file with one prompt per line to a suite in YAML. The prompts
 * keep their line numbers, so that messages can name the file and the line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/core/path.h"
#include "harness/plan/prompt_list.h"
#include "harness/plan/suite.h"

/* Writes a text as a quoted YAML string. Control characters and Unicode line breaks are escaped,
 * because YAML forbids the former and treats the latter as line breaks. */
static void write_text(FILE *to, const char *s)
{
    fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < ' ' || *p == 0x7f)
            fprintf(to, "\\x%02x", *p);
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            fprintf(to, "\\x%02x", *++p);
        else if (p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9)) {
            fprintf(to, "\\u20%02x", p[2] - 0x80);
            p += 2;
        } else
            fputc(*p, to);
    fputc('"', to);
}

static void write_head(FILE *to, const struct kvr_suite_list *list)
{
    fputs("{name: ", to);
    write_text(to, list->name);
    if (list->embeddings) {
        fputs(", embeddings: ", to);
        write_text(to, list->embeddings);
    }
    fputs(", prompts: [", to);
}

static void write_prompt(FILE *to, bool first, const char *id, const char *text)
{
    fprintf(to, "%s{id: %s, text: ", first ? "" : ", ", id);
    write_text(to, text);
    fputc('}', to);
}

static void write_lines(FILE *to, const struct kvr_suite_list *list,
                        const struct kvr_prompt_list *l)
{
    const int n = list->n && list->n < l->n ? list->n : l->n;
    int at = 1;

    write_head(to, list);
    for (int i = 0; i < n; i++) {
        for (; at < l->line[i].number; at++)
            fputc('\n', to);
        write_prompt(to, i == 0, l->line[i].id, l->line[i].text);
    }
    fputs("]}\n", to);
}

/* Writes a suite of placeholder prompts for a missing text file, as many as the sweep needs. */
static void write_places(FILE *to, const struct kvr_suite_list *list)
{
    char id[KVR_LINE_ID], text[160];

    write_head(to, list);
    for (int i = 0; i < list->n; i++) {
        snprintf(id, sizeof id, "p%04d", i + 1);
        snprintf(text, sizeof text,
                 "placeholder for prompt %d, since the text file %.80s is missing", i + 1,
                 list->name);
        write_prompt(to, i == 0, id, text);
    }
    fputs("]}\n", to);
}

static enum kvr_status yaml_of(const struct kvr_suite_list *list, bool absent, char **text,
                               size_t *size)
{
    struct kvr_prompt_list l = { 0 };
    FILE *to;

    if (!absent)
        KVR_TRY(kvr_prompt_list_read(&l, list->path));
    to = kvr_text_open(text, size);
    if (to && absent)
        write_places(to, list);
    else if (to)
        write_lines(to, list, &l);
    kvr_prompt_list_free(&l);
    if (kvr_text_close(to, text))
        return KVR_OK;
    return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the prompts", list->path);
}

enum kvr_status kvr_suite_read_lines(struct kvr_suite *s, const struct kvr_suite_list *list,
                                     bool *absent)
{
    char *text = NULL;
    size_t size = 0;
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    *absent = !kvr_path_exists(list->path);
    if (*absent && list->n == 0)
        return kvr_fail(KVR_ENOTFOUND,
                        "list of prompts '%s' not found; a sweep can be planned without it if "
                        "'prompts' is a number",
                        list->path);
    KVR_TRY(yaml_of(list, *absent, &text, &size));
    st = kvr_yaml_read_text(&s->doc, text, size, list->path);
    free(text);
    return st == KVR_OK ? kvr_suite_read_doc(s, list->path) : st;
}
