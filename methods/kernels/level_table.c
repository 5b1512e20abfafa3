/* level_table.c - see level_table.h. */
#include "methods/kernels/level_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"
#include "methods/kernels/calibration.h"

struct line {
    enum kvr_side side;
    long layer;
    int n;
};

/* Parses a line such as "k 0 -0.8 0.8": k for keys or v for values, the layer index, and the levels
 * in ascending order. Returns false if the line has another form or more than `capacity` levels.
 * `text` contains no comment. */
static bool read_line(const char *text, int capacity, struct line *out, double *level)
{
    char *end;

    if ((text[0] != 'k' && text[0] != 'v') || text[1] != ' ')
        return false;
    out->side = text[0] == 'k' ? KVR_K : KVR_V;
    out->layer = strtol(text + 2, &end, 10);
    if (end == text + 2 || out->layer < 0)
        return false;
    for (out->n = 0;; out->n++) {
        double x;

        text = end + strspn(end, " \t\r\n");
        if (!*text)
            return true;
        x = strtod(text, &end);
        if (end == text || out->n == capacity || !(x >= -1 && x <= 1) ||
            (out->n && !(x >= level[out->n - 1])))
            return false;
        level[out->n] = x;
    }
}

/* Parses a line of the table and increments *lines; skips an empty line or a comment. If the line
 * is for `side` (keys or values) and layer place->layer, copies its n levels to `level` and sets
 * *found. */
static enum kvr_status take(const char *path, int at, char *text, enum kvr_side side,
                            const struct kvr_place *place, int n, double *level, int *lines,
                            bool *found)
{
    double row[16];
    struct line line;

    text[strcspn(text, "#")] = 0;
    text += strspn(text, " \t\r\n");
    if (!*text)
        return KVR_OK;
    if (!read_line(text, 16, &line, row) || line.n != n)
        return kvr_fail(KVR_EFORMAT,
                        "%s:%d: need k (keys) or v (values), a layer index, and %d ascending "
                        "levels from -1 to 1, found '%.*s'",
                        path, at, n, (int)strcspn(text, "\r\n"), text);
    ++*lines;
    if (line.side != side || line.layer != place->layer)
        return KVR_OK;
    if (*found)
        return kvr_fail(KVR_EFORMAT, "%s:%d: layer %d is listed twice for %s", path, at,
                        place->layer, side == KVR_K ? "keys" : "values");
    *found = true;
    memcpy(level, row, (size_t)n * sizeof *level);
    return KVR_OK;
}

enum kvr_status kvr_level_table_read(const char *path, enum kvr_side side,
                                     const struct kvr_place *place, int n, double *level)
{
    enum kvr_status st = KVR_OK;
    char *text = NULL;
    size_t size = 0;
    int at = 0, lines = 0;
    bool found = false;
    FILE *f;

    KVR_TRY(kvr_calibration_find("levels", path, place));
    st = kvr_infile_open_text(&f, path);
    if (st != KVR_OK)
        return kvr_fail_prefix(st, "levels");
    while (st == KVR_OK && getline(&text, &size, f) >= 0)
        st = take(path, ++at, text, side, place, n, level, &lines, &found);
    if (st == KVR_OK && lines != 2 * place->n_layers)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: the file has %d lines of levels; a model of %d layers needs two lines "
                      "per layer, for keys and for values",
                      path, lines, place->n_layers);
    else if (st == KVR_OK && !found)
        st = kvr_fail(
            KVR_EFORMAT,
            "%s: none of the file's %d lines lists the levels of %s in layer %d; add this line",
            path, lines, side == KVR_K ? "keys" : "values", place->layer);
    free(text);
    fclose(f);
    return st;
}
