/* fit_cache.c - see fit_cache.h. */
#include "harness/plan/fit_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/geometry.h"

struct kvr_solved {
    const struct kvr_config_method *method;
    const struct kvr_config_model *model;
    int model_layers, frames;
    enum kvr_status st;
    struct kvr_fit fit;
    char why[256]; /* error message, if no value meets the budget */
};

/* Finds the cached entry with the arguments of `like`. Successive points of the sweep request the
 * budgets in the same order, so the search starts after the previous result. */
static struct kvr_solved *find(struct kvr_fit_cache *f, const struct kvr_solved *like)
{
    for (int i = 1; i <= f->n; i++) {
        const int at = (f->at + i) % f->n;
        struct kvr_solved *s = &f->solved[at];

        if (s->method == like->method && s->model == like->model &&
            s->model_layers == like->model_layers && s->frames == like->frames) {
            f->at = at;
            return s;
        }
    }
    return NULL;
}

static enum kvr_status add(struct kvr_fit_cache *f, const struct kvr_solved *s)
{
    struct kvr_solved *more = realloc(f->solved, ((size_t)f->n + 1) * sizeof *more);

    if (!more)
        return kvr_fail(KVR_ENOMEM, "plan: out of memory while allocating %d budgets", f->n + 1);
    f->solved = more;
    f->at = f->n;
    f->solved[f->n++] = *s;
    return KVR_OK;
}

enum kvr_status kvr_fit_cache_solve(struct kvr_fit_cache *f, const struct kvr_config_method *m,
                                    const struct kvr_config_model *model, int model_layers,
                                    int frames, bool (*stopped)(void), struct kvr_fit *out)
{
    struct kvr_solved s = {
        .method = m, .model = model, .model_layers = model_layers, .frames = frames
    };
    const struct kvr_solved *known = find(f, &s);
    struct kvr_geometry geo;

    if (known) {
        *out = known->fit;
        return known->st == KVR_OK ? KVR_OK : kvr_fail(known->st, "%s", known->why);
    }
    KVR_TRY(kvr_geometry_of(model, model_layers, &geo));
    s.st = kvr_fit_solve(&s.fit, m->spec, m->setting, m->n_settings, &geo, frames, stopped);
    *out = s.fit;
    /* Errors other than an unmet budget end the planning, so they are not cached. */
    if (s.st != KVR_OK && s.st != KVR_EUNSUPPORTED)
        return s.st;
    if (s.st != KVR_OK)
        snprintf(s.why, sizeof s.why, "%s", kvr_error());
    KVR_TRY(add(f, &s));
    return s.st == KVR_OK ? KVR_OK : kvr_fail(s.st, "%s", s.why);
}

void kvr_fit_cache_free(struct kvr_fit_cache *f)
{
    free(f->solved);
    *f = (struct kvr_fit_cache){ 0 };
}
