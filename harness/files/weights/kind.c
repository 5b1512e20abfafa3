/* kind.c - identifies a weight file's kind of network by its tensor names, and finds the tensors
 * that kinds.def requires and the file lacks. */
#include "harness/files/weights/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
#define KIND(id, name, a, b) id,
#define LAYERS(id, prefix)
#define NEED(id, tensor)
#include "harness/files/weights/kinds.def"
#undef KIND
#undef LAYERS
#undef NEED
    N_KINDS
};

enum { MAX_LAYERS = 1024, NAME_ROOM = 256 };

static const struct {
    const char *name, *sign[2];
} kinds[] = {
#define KIND(id, name, a, b) { name, { a, b } },
#define LAYERS(id, prefix)
#define NEED(id, tensor)
#include "harness/files/weights/kinds.def"
#undef KIND
#undef LAYERS
#undef NEED
};

static const char *const layers[N_KINDS] = {
#define KIND(id, name, a, b)
#define LAYERS(id, prefix) [id] = prefix,
#define NEED(id, tensor)
#include "harness/files/weights/kinds.def"
#undef KIND
#undef LAYERS
#undef NEED
};

static const struct {
    enum kind kind;
    const char *tensor;
} needs[] = {
#define KIND(id, name, a, b)
#define LAYERS(id, prefix)
#define NEED(id, tensor) { id, tensor },
#include "harness/files/weights/kinds.def"
#undef KIND
#undef LAYERS
#undef NEED
};

static enum kind find_kind(const struct kvr_weights *w)
{
    for (int i = 0; i < N_KINDS; i++)
        if (kvr_weights_find(w, kinds[i].sign[0]) && kvr_weights_find(w, kinds[i].sign[1]))
            return (enum kind)i;
    return N_KINDS;
}

/* Counts layers: the highest layer number that follows `prefix` in a tensor's name, plus one. */
static int count_layers(const struct kvr_weights *w, const char *prefix)
{
    const size_t n = strlen(prefix);
    int most = 0;

    for (int i = 0; i < kvr_weights_count(w); i++) {
        const char *name = kvr_weights_model_name(w, i);
        long x;

        if (!name || strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9')
            continue;
        x = strtol(name + n, NULL, 10);
        if (x >= most && x < MAX_LAYERS)
            most = (int)x + 1;
    }
    return most;
}

static enum kvr_status add_missing(struct kvr_kind_report *r, const struct kvr_weights *w,
                                   const char *name)
{
    char **p;

    if (kvr_weights_find(w, name))
        return KVR_OK;
    p = realloc(r->missing, (size_t)(r->n_missing + 1) * sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM,
                        "%s: out of memory while allocating the list of missing tensors",
                        kvr_weights_path(w));
    r->missing = p;
    p[r->n_missing] = strdup(name);
    if (!p[r->n_missing])
        return kvr_fail(KVR_ENOMEM,
                        "%s: out of memory while allocating the list of missing tensors",
                        kvr_weights_path(w));
    r->n_missing++;
    return KVR_OK;
}

/* Checks that the file has the required tensor `row` (NEED in kinds.def). If the name contains %d,
 * checks the tensor of every layer. Adds the names that the file lacks to r->missing. */
static enum kvr_status check_required(struct kvr_kind_report *r, const struct kvr_weights *w,
                                      const char *row)
{
    const char *at = strstr(row, "%d");
    char name[NAME_ROOM];

    if (!at)
        return add_missing(r, w, row);
    for (int i = 0; i < r->n_layers; i++) {
        snprintf(name, sizeof name, "%.*s%d%s", (int)(at - row), row, i, at + 2);
        KVR_TRY(add_missing(r, w, name));
    }
    return KVR_OK;
}

static void count_params(struct kvr_kind_report *r, const struct kvr_weights *w)
{
    for (int i = 0; i < kvr_weights_count(w); i++) {
        const struct kvr_weight *t = kvr_weights_at(w, i);

        if (!kvr_weights_model_name(w, i) || (!t->blocks && t->dtype >= KVR_BOOL))
            continue;
        r->n_params += t->n;
        r->stored_bytes += t->n_bytes;
    }
}

enum kvr_status kvr_kind_detect(struct kvr_kind_report *r, const struct kvr_weights *w,
                                int n_layers)
{
    enum kind kind = find_kind(w);
    enum kvr_status st = KVR_OK;

    *r = (struct kvr_kind_report){ .kind = kind == N_KINDS ? "tensors" : kinds[kind].name };
    count_params(r, w);
    if (kind == N_KINDS)
        return KVR_OK;
    if (layers[kind])
        r->n_layers =
            n_layers > 0 && n_layers <= MAX_LAYERS ? n_layers : count_layers(w, layers[kind]);
    for (size_t i = 0; st == KVR_OK && i < sizeof needs / sizeof *needs; i++)
        if (needs[i].kind == kind)
            st = check_required(r, w, needs[i].tensor);
    if (st != KVR_OK)
        kvr_kind_free(r);
    return st;
}

void kvr_kind_free(struct kvr_kind_report *r)
{
    for (int i = 0; i < r->n_missing; i++)
        free(r->missing[i]);
    free(r->missing);
    *r = (struct kvr_kind_report){ 0 };
}
