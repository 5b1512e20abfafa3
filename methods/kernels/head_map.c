/* head_map.c - see head_map.h. */
#include "methods/kernels/head_map.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"

enum { MOST_HEADS = 1024 };

/* Copies the class letters in a line, one per head, up to a '#', to class[n]. Returns the number of
 * letters, or -1 if there are more than n letters or a letter that is not in `letters`. */
static int read_letters(const char *letters, const char *line, int n, char *class)
{
    int k = 0;

    for (; *line && *line != '#' && *line != '\n'; line++) {
        if (isspace((unsigned char)*line))
            continue;
        if (!strchr(letters, *line) || k == n)
            return -1;
        class[k++] = *line;
    }
    return k;
}

enum kvr_status kvr_head_map_read(const char *path, const char *letters,
                                  const struct kvr_policy_ctx *ctx, char *class)
{
    const int heads = ctx->n_heads < MOST_HEADS ? ctx->n_heads : MOST_HEADS;
    enum kvr_status st = KVR_OK;
    char *line = NULL, row[MOST_HEADS];
    size_t size = 0;
    int layer = 0, at = 0;
    FILE *f;

    st = kvr_infile_open_text(&f, path);
    if (st != KVR_OK)
        return kvr_fail_prefix(st, "head map");
    while (st == KVR_OK && getline(&line, &size, f) >= 0) {
        const int got = read_letters(letters, line, heads, row);

        at++;
        if (got == 0)
            continue;
        if (got != ctx->n_heads)
            st = kvr_fail(
                KVR_EFORMAT,
                "%s:%d: need %d letters out of '%s', one class letter per head, found '%.*s'", path,
                at, ctx->n_heads, letters, (int)strcspn(line, "#\r\n"), line);
        else if (layer++ == ctx->layer)
            memcpy(class, row, (size_t)got);
    }
    if (st == KVR_OK && layer != ctx->n_layers)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: the file has %d lines of head classes, but the model has %d layers; "
                      "need one line per layer, with one letter per head",
                      path, layer, ctx->n_layers);
    free(line);
    fclose(f);
    return st;
}
