/* checker.c - functions that all checks share: comparisons, a forward pass, and a cache
 * (check_impl.h). */
#include "harness/engine/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/device/names.h"
#include "harness/engine/check_impl.h"

/* Bounds of the relative L2 error and of the maximum absolute error in F32. Rounding causes a
 * relative L2 error of 5e-7 and a maximum absolute error of 3e-6. The smallest known mistake, GELU
 * by erf instead of by tanh, causes a relative L2 error of 7e-5. */
static const struct kvr_tolerance parity = { 1e-5, 1e-4 };
/* Bounds of the relative L2 error in BF16. The reference implementation in BF16 differs from itself
 * in F32 by 6.4e-3 in latents and by 9e-3 in cached keys. Intermediate tensors have the same bound
 * as cached keys. */
static const struct kvr_tolerance bf16_latents = { 1.2e-2, INFINITY };
static const struct kvr_tolerance bf16_rest = { 1.5e-2, INFINITY };

enum kvr_status kvr_checker_open(struct kvr_checker *k)
{
    const struct kvr_model_use use = { .compute = k->how.compute };

    memset(k->report, 0, sizeof *k->report);
    KVR_TRY(kvr_dev_open_named(&k->dev, k->how.device ? k->how.device : "cpu"));
    KVR_TRY(kvr_model_open_as(&k->m, k->dev, k->dir, &use));
    k->c = kvr_model_config(k->m);
    k->chunk_elems = kvr_model_frame_elems(k->m) * k->c->frames_per_chunk;
    k->chunk_kv = (int64_t)k->c->frames_per_chunk * kvr_model_tokens_per_frame(k->m) * k->c->dim;
    kvr_schedule_make(&k->schedule, k->c);
    KVR_TRY(kvr_dit_open(&k->d, k->dev, k->m));
    return kvr_scheme_open(&k->scheme, k->how.compute == KVR_F32 ? "F32" : "BF16", NULL, 0);
}

enum kvr_status kvr_checker_close(struct kvr_checker *k, enum kvr_status st)
{
    kvr_st_close(&k->file);
    kvr_scheme_close(&k->scheme);
    kvr_dit_close(&k->d);
    kvr_model_close(&k->m);
    kvr_dev_close(&k->dev);
    if (st != KVR_OK)
        kvr_check_report_free(k->report);
    else
        kvr_check_conclude(k->report);
    return st;
}

static enum kvr_status compare_to(struct kvr_checker *k, const char *name, const float *x,
                                  int64_t n, const struct kvr_tolerance *tol)
{
    struct kvr_tensor golden;

    if (!kvr_st_has(k->file, name) || kvr_check_has(k->report, name))
        return KVR_OK;
    KVR_TRY(kvr_st_get(k->file, name, &golden));
    return kvr_check_compare(k->report, name, x, n, &golden, tol);
}

static bool ends_in(const char *name, const char *const *ends)
{
    const char *dot = strrchr(name, '.');

    for (int i = 0; dot && ends[i]; i++)
        if (strcmp(dot + 1, ends[i]) == 0)
            return true;
    return false;
}

/* Compares a tensor that is computed without linear layers. Its bounds are those of F32, even if
 * the model computes in BF16. */
enum kvr_status kvr_checker_compare_table(struct kvr_checker *k, const char *name, const float *x,
                                          int64_t n)
{
    return compare_to(k, name, x, n, &parity);
}

/* Returns the tolerance for a tensor of this name. */
static const struct kvr_tolerance *bounds(const struct kvr_checker *k, const char *name)
{
    static const char *const untouched[] = { "sinusoid", NULL };
    static const char *const latents[] = { "latents", "flow", "x0", NULL };

    if (k->how.compute == KVR_F32 || ends_in(name, untouched))
        return &parity;
    return ends_in(name, latents) ? &bf16_latents : &bf16_rest;
}

enum kvr_status kvr_checker_compare(struct kvr_checker *k, const char *name, const float *x,
                                    int64_t n)
{
    return compare_to(k, name, x, n, bounds(k, name));
}

enum kvr_status kvr_checker_compare_as(struct kvr_checker *k, const char *name, const float *x,
                                       int64_t n, const struct kvr_tensor *golden)
{
    return kvr_check_compare(k->report, name, x, n, golden, bounds(k, name));
}

enum kvr_status kvr_checker_compare_part(struct kvr_checker *k, const char *test, const char *part,
                                         const float *x, int64_t n)
{
    char name[96];

    snprintf(name, sizeof name, "%s.%s", test, part);
    return kvr_checker_compare(k, name, x, n);
}

/* Reads a recorded F32 tensor of exactly n values. */
enum kvr_status kvr_checker_input(const struct kvr_checker *k, const char *name, int64_t n,
                                  const float **out)
{
    struct kvr_tensor t;

    KVR_TRY(kvr_st_get(k->file, name, &t));
    if (t.dtype != KVR_F32)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32", kvr_st_path(k->file),
                        name, kvr_dtype_name(t.dtype));
    if (kvr_tensor_count(&t) != n)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' has %lld values, the model's config.json requires %lld",
                        kvr_st_path(k->file), name, (long long)kvr_tensor_count(&t), (long long)n);
    *out = t.data;
    return KVR_OK;
}

/* Reports recorded tensors that no check compared: names in `inputs` as inputs, all other names as
 * unknown. */
enum kvr_status kvr_checker_note_rest(struct kvr_checker *k, const char *const *inputs)
{
    for (int i = 0; i < kvr_st_count(k->file); i++) {
        const char *name = kvr_st_name(k->file, i);
        bool is_input = false;

        for (int j = 0; inputs[j]; j++)
            is_input |= strcmp(name, inputs[j]) == 0;
        if (!is_input && !kvr_check_has(k->report, name))
            KVR_TRY(kvr_check_note(k->report, name, KVR_CHECK_UNKNOWN,
                                   "not compared: the engine computes no tensor of this name"));
    }
    return KVR_OK;
}

enum kvr_status kvr_checker_open_cache(struct kvr_checker *k, const struct kvr_scheme *scheme,
                                       struct kvr_cache **out, int n_frames, int window, int sink)
{
    const struct kvr_cache_shape shape = {
        .n_layers = k->c->n_layers,
        .n_heads = k->c->n_heads,
        .head_dim = kvr_model_head_dim(k->m),
        .tokens_per_frame = kvr_model_tokens_per_frame(k->m),
        .frames_per_chunk = k->c->frames_per_chunk,
        .capacity_frames = n_frames,
        .window_frames = window,
        .sink_frames = sink,
        .evict = window != 0,
        .exact = k->how.compute,
    };

    return kvr_cache_open(out, k->dev, scheme, &shape, KVR_PATH_STAGED);
}

enum kvr_status kvr_checker_forward(struct kvr_checker *k, struct kvr_cache *cache, const float *x,
                                    const float *t, const struct kvr_pass *pass, float *work,
                                    float *out)
{
    const size_t n_bytes = (size_t)k->chunk_elems * sizeof *x;
    float *y = work + k->chunk_elems;

    KVR_TRY(kvr_dev_put(k->dev, work, x, n_bytes));
    KVR_TRY(kvr_cache_begin_pass(cache, pass));
    KVR_TRY(kvr_dit_forward(k->d, cache, work, t, pass, y));
    KVR_TRY(kvr_cache_end_pass(cache));
    KVR_TRY(kvr_dev_sync(k->dev));
    return kvr_dev_get(k->dev, out, y, n_bytes);
}
