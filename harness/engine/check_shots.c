/* check_shots.c - checks parity folders (recorded tensors) of models that generate several shots:
 * single forward passes, rollouts from recorded noise, a LoRA adapter, and the UniPC solver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/engine/check_impl.h"
#include "harness/engine/unipc.h"

/* ---- single forwards -------------------------------------------------------------------- */

static const struct forward_row {
    const char *name, *timestep;
    /* Names of tensors with the input latents. The first tensor that exists is used, or the chunk's
     * noise if none exists. */
    const char *x[2];
    int chunk;
    bool fresh; /* the forward pass starts with an empty cache */
} forward_rows[] = {
    { "b", "b.timestep", { "b.x", "a.x" }, 0, true },
    { "a", "a.timestep", { "a.x" }, 0, true },
    { "c", "c.timestep", { "c.x" }, 1, false },
};

static enum kvr_status set_prompt(struct kvr_checker *k, const char *name)
{
    const float *P;

    KVR_TRY(kvr_checker_input(k, name, (int64_t)k->c->text_len * k->c->text_dim, &P));
    return kvr_dit_set_prompt(k->d, P);
}

static enum kvr_status forward_input(struct kvr_checker *k, const struct forward_row *f,
                                     const float **x)
{
    struct kvr_tensor noise;

    for (int i = 0; i < 2 && f->x[i]; i++)
        if (kvr_st_has(k->file, f->x[i]))
            return kvr_checker_input(k, f->x[i], k->chunk_elems, x);
    KVR_TRY(kvr_st_get(k->file, "noise", &noise));
    if (noise.dtype != KVR_F32 || kvr_tensor_count(&noise) < (f->chunk + 1) * k->chunk_elems)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: tensor 'noise' has %lld elements of type %s, need F32 and at least %lld "
            "elements for %d chunks",
            kvr_st_path(k->file), (long long)kvr_tensor_count(&noise), kvr_dtype_name(noise.dtype),
            (long long)((f->chunk + 1) * k->chunk_elems), f->chunk + 1);
    *x = (const float *)noise.data + f->chunk * k->chunk_elems;
    return KVR_OK;
}

/* Repeats a recorded forward pass and compares its results. `work` has room for the latents of a
 * chunk, followed by the keys of two chunks. on_device has room for the latents of two chunks. */
static enum kvr_status run_forward(struct kvr_checker *k, const struct forward_row *f,
                                   struct kvr_cache *cache, float *work, float *on_device)
{
    const int n = k->c->frames_per_chunk;
    const struct kvr_pass pass = {
        .chunk = f->chunk, .frame0 = f->chunk * n, .n_frames = n, .clean = true
    }; /* a cache-update pass, which stores the chunk */
    float *keys = work + k->chunk_elems;
    const float *x, *t;
    int64_t n_tok;

    if (!kvr_st_has(k->file, f->timestep))
        return KVR_OK;
    KVR_TRY(forward_input(k, f, &x));
    KVR_TRY(kvr_checker_input(k, f->timestep, n, &t));
    if (f->fresh)
        kvr_cache_reset(cache);
    KVR_TRY(kvr_checker_forward(k, cache, x, t, &pass, on_device, work));
    KVR_TRY(kvr_checker_compare_part(k, f->name, "flow", work, k->chunk_elems));
    KVR_TRY(kvr_cache_read(cache, k->c->n_layers - 1, keys, NULL, &n_tok));
    return kvr_checker_compare_part(k, f->name, "cache_k_last", keys, n_tok * k->c->dim);
}

/* Repeats the forward passes of rows [first, first + n) of forward_rows. */
static enum kvr_status run_forwards(struct kvr_checker *k, int first, int n)
{
    const int64_t capacity = k->chunk_elems + 2 * k->chunk_kv;
    struct kvr_cache *cache = NULL;
    struct kvr_buf work = { 0 }, on_device = { 0 };
    enum kvr_status st;

    st = kvr_buf_alloc(&work, kvr_dev_host(k->dev), KVR_MEM_IO, (size_t)capacity * sizeof(float));
    if (st == KVR_OK)
        st = kvr_buf_alloc(&on_device, k->dev, KVR_MEM_IO,
                           2 * (size_t)k->chunk_elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_checker_open_cache(k, k->scheme, &cache, 2 * k->c->frames_per_chunk, 0, 0);
    for (int i = first; i < first + n && st == KVR_OK; i++)
        st = run_forward(k, &forward_rows[i], cache, work.p, on_device.p);
    kvr_cache_close(&cache);
    kvr_buf_free(&on_device);
    kvr_buf_free(&work);
    return st;
}

/* ---- loops ------------------------------------------------------------------------------- */

static const struct loop_row {
    const char *name;
    int cut[2]; /* chunks at which the prompt changes; 0: no change */
    bool pins;
    /* name of the tensor with the video's first latent frame, or NULL if this frame is generated */
    const char *first;
} loop_rows[] = {
    { "plain", { 0 }, false, NULL },
    { "shots", { 2, 5 }, true, NULL },
    { "shots_nosink", { 3 }, false, NULL },
    { "image", { 0 }, false, "image.first" },
};

struct loop {
    struct kvr_checker *k;
    const struct loop_row *row;
    struct kvr_cache *cache;
    int n_chunks, *shot; /* [n_chunks] */
    const float *noise;
    float *latents, *keys;
    /* Keys of the last chunk. They are copied during this chunk's forward pass. Afterwards, a cache
     * whose window has room for only two sinks and one chunk evicts them. */
    float *newest;
    int64_t n_before; /* number of earlier tokens that the last chunk can see */
};

static enum kvr_status keep_newest(void *ctx, const struct kvr_cache_view *view)
{
    const struct loop *l = ctx;

    if (view->layer == l->k->c->n_layers - 1 && view->pass->chunk == l->n_chunks - 1)
        kvr_to_f32(l->newest, view->k, view->shape->exact, l->k->chunk_kv);
    return KVR_OK;
}

static enum kvr_status given_noise(void *ctx, int chunk, int step, int frame0, int n_frames,
                                   int64_t frame_elems, float *dst)
{
    const struct loop *l = ctx;

    if (step >= 0)
        return kvr_fail(
            KVR_EINVAL,
            "check: chunk %d needs noise between denoising steps, but the recorded "
            "tensors contain only initial noise; use the UniPC sampler for the recording, "
            "which adds no noise between steps",
            chunk);
    memcpy(dst, l->noise + frame0 * frame_elems, (size_t)(n_frames * frame_elems) * sizeof *dst);
    return KVR_OK;
}

static enum kvr_status begin_chunk(void *ctx, int chunk)
{
    struct loop *l = ctx;

    if (l->row->pins && chunk == l->n_chunks - 1)
        KVR_TRY(kvr_cache_read(l->cache, l->k->c->n_layers - 1, l->keys, NULL, &l->n_before));
    if (chunk > 0 && l->shot[chunk] == l->shot[chunk - 1])
        return KVR_OK;
    return set_prompt(l->k, l->shot[chunk] % 2 ? "prompt_b" : "prompt_a");
}

static enum kvr_status open_loop_cache(struct loop *l, struct kvr_scheme **scheme)
{
    const struct kvr_model_config *c = l->k->c;
    const int n_frames = l->n_chunks * c->frames_per_chunk;
    char text[96];
    const struct kvr_setting pins = { "retention", text };

    if (!l->row->pins)
        return kvr_checker_open_cache(l->k, l->k->scheme, &l->cache, n_frames, c->window_frames,
                                      c->sink_frames);
    snprintf(text, sizeof text, "multi_shot_sink(frames=%d,sink=%d)",
             c->window_frames ? c->window_frames : n_frames, c->sink_frames);
    KVR_TRY(kvr_scheme_open(scheme, l->k->how.compute == KVR_F32 ? "F32" : "BF16", &pins, 1));
    KVR_TRY(kvr_checker_open_cache(l->k, *scheme, &l->cache, n_frames, 0, 0));
    kvr_cache_observe(l->cache, keep_newest, l);
    return KVR_OK;
}

/* Reads the keys of the last layer: first the earlier tokens that the last chunk can see, then the
 * last chunk's tokens. */
static enum kvr_status read_buffer(struct loop *l, int64_t *n_values)
{
    const int layer = l->k->c->n_layers - 1;
    const int64_t dim = l->k->c->dim, before = l->n_before * dim;
    int64_t n;

    if (l->row->pins) {
        memcpy(l->keys + before, l->newest, (size_t)l->k->chunk_kv * sizeof *l->keys);
        *n_values = before + l->k->chunk_kv;
        return KVR_OK;
    }
    KVR_TRY(kvr_cache_read(l->cache, layer, l->keys, NULL, &n));
    *n_values = n * dim;
    return KVR_OK;
}

static enum kvr_status run_loop(struct loop *l)
{
    const struct kvr_model_config *c = l->k->c;
    struct kvr_sample_hooks hooks = { .ctx = l,
                                      .shots = { l->shot, c->shot_offset, KVR_SWITCH_KEEP, 0 },
                                      .chunk_begin = begin_chunk };
    struct kvr_scheme *scheme = NULL;
    int64_t n = 0;
    enum kvr_status st;

    if (l->row->first)
        KVR_TRY(
            kvr_checker_input(l->k, l->row->first, kvr_model_frame_elems(l->k->m), &hooks.first));
    for (int i = 0; i < l->n_chunks; i++)
        l->shot[i] =
            (l->row->cut[0] && i >= l->row->cut[0]) + (l->row->cut[1] && i >= l->row->cut[1]);
    l->n_before = 0;
    st = open_loop_cache(l, &scheme);
    if (st == KVR_OK)
        st = kvr_sample(l->k->d, l->cache, l->n_chunks * c->frames_per_chunk, given_noise, l,
                        &hooks, l->latents);
    if (st == KVR_OK)
        st = kvr_checker_compare_part(l->k, l->row->name, "latents", l->latents,
                                      l->n_chunks * l->k->chunk_elems);
    if (st == KVR_OK)
        st = read_buffer(l, &n);
    if (st == KVR_OK)
        st = kvr_checker_compare_part(l->k, l->row->name, "cache_k_last", l->keys, n);
    kvr_cache_close(&l->cache);
    kvr_scheme_close(&scheme);
    return st;
}

static bool has_part(const struct kvr_checker *k, const char *test, const char *part)
{
    char name[96];

    snprintf(name, sizeof name, "%s.%s", test, part);
    return kvr_st_has(k->file, name);
}

static enum kvr_status run_loops(struct kvr_checker *k)
{
    struct loop base = { .k = k };
    struct kvr_tensor noise;
    struct kvr_buf work = { 0 };
    enum kvr_status st = KVR_OK;
    int64_t n;

    KVR_TRY(kvr_st_get(k->file, "noise", &noise));
    n = kvr_tensor_count(&noise);
    if (noise.dtype != KVR_F32 || n < k->chunk_elems || n % k->chunk_elems)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor 'noise' has %lld values of type %s, need F32 and a positive "
                        "multiple of %lld, the number of values of one chunk",
                        kvr_st_path(k->file), (long long)n, kvr_dtype_name(noise.dtype),
                        (long long)k->chunk_elems);
    base.noise = noise.data;
    base.n_chunks = (int)(n / k->chunk_elems);
    KVR_TRY(kvr_buf_alloc(&work, kvr_dev_host(k->dev), KVR_MEM_IO,
                          (size_t)(n + (base.n_chunks + 2) * k->chunk_kv) * sizeof(float) +
                              (size_t)base.n_chunks * sizeof *base.shot));
    base.latents = work.p;
    base.keys = base.latents + n;
    base.newest = base.keys + (base.n_chunks + 1) * k->chunk_kv;
    base.shot = (int *)(base.newest + k->chunk_kv);
    for (size_t i = 0; i < sizeof loop_rows / sizeof *loop_rows && st == KVR_OK; i++) {
        struct loop l = base;

        l.row = &loop_rows[i];
        if (has_part(k, l.row->name, "latents"))
            st = run_loop(&l);
    }
    kvr_buf_free(&work);
    return st;
}

enum kvr_status kvr_check_shots(struct kvr_checker *k)
{
    static const char *const inputs[] = { "a.x",        "b.x",         "c.x",   "a.timestep",
                                          "b.timestep", "c.timestep",  "noise", "prompt_a",
                                          "prompt_b",   "image.first", NULL };
    const int n = sizeof forward_rows / sizeof *forward_rows;

    KVR_TRY(set_prompt(k, "prompt_a"));
    KVR_TRY(run_forwards(k, 0, n));
    if (kvr_st_has(k->file, "noise"))
        KVR_TRY(run_loops(k));
    return kvr_checker_note_rest(k, inputs);
}

/* ---- adapters ----------------------------------------------------------------------------- */

/* Runs a forward pass of the model with a LoRA adapter merged into its weights, and compares the
 * result. The inputs of this pass are in golden.safetensors. */
static enum kvr_status forward_merged(struct kvr_checker *k, struct kvr_checker *golden)
{
    const int n = k->c->frames_per_chunk;
    const struct kvr_pass pass = { .n_frames = n, .clean = true };
    struct kvr_buf work = { 0 }, on_device = { 0 };
    struct kvr_cache *cache = NULL;
    const float *x, *t;
    struct kvr_tensor recorded;
    enum kvr_status st;

    KVR_TRY(set_prompt(golden, "prompt_a"));
    KVR_TRY(forward_input(golden, &forward_rows[1], &x));
    KVR_TRY(kvr_checker_input(golden, "a.timestep", n, &t));
    KVR_TRY(kvr_st_get(k->file, "a.flow", &recorded));
    st = kvr_buf_alloc(&work, kvr_dev_host(k->dev), KVR_MEM_IO,
                       (size_t)k->chunk_elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_buf_alloc(&on_device, k->dev, KVR_MEM_IO,
                           2 * (size_t)k->chunk_elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_checker_open_cache(k, k->scheme, &cache, n, 0, 0);
    if (st == KVR_OK)
        st = kvr_checker_forward(golden, cache, x, t, &pass, on_device.p, work.p);
    if (st == KVR_OK)
        st = kvr_checker_compare_as(k, "lora.a.flow", work.p, k->chunk_elems, &recorded);
    kvr_cache_close(&cache);
    kvr_buf_free(&on_device);
    kvr_buf_free(&work);
    return st;
}

enum kvr_status kvr_check_lora(struct kvr_checker *k)
{
    static const char *const names[] = { "lora.pt", "lora.safetensors" };
    struct kvr_model_use use = { .compute = k->how.compute };
    struct kvr_checker golden = *k;
    char *lora = NULL, *path = kvr_path_join(k->dir, "golden.safetensors");
    enum kvr_status st = path ? KVR_OK : kvr_fail(KVR_ENOMEM, "check: out of memory");

    for (int i = 0; i < 2 && st == KVR_OK && !lora; i++) {
        lora = kvr_path_join(k->dir, names[i]);
        if (lora && !kvr_path_exists(lora)) {
            free(lora);
            lora = NULL;
        }
    }
    if (st == KVR_OK && !kvr_path_exists(path))
        st = kvr_check_note(
            k->report, "lora.a.flow", KVR_CHECK_NOT_BUILT,
            "the folder has no golden.safetensors, which contains the input a.x of this check");
    else if (st == KVR_OK && !lora)
        st = kvr_check_note(k->report, "lora.a.flow", KVR_CHECK_NOT_BUILT,
                            "neither lora.pt nor lora.safetensors is in the folder");
    else if (st == KVR_OK) {
        use.lora = lora;
        golden.m = NULL;
        golden.d = NULL;
        st = kvr_st_open(&golden.file, path);
        if (st == KVR_OK)
            st = kvr_model_open_as(&golden.m, k->dev, k->dir, &use);
        if (st == KVR_OK)
            st = kvr_dit_open(&golden.d, k->dev, golden.m);
        if (st == KVR_OK)
            st = forward_merged(k, &golden);
        kvr_dit_close(&golden.d);
        kvr_model_close(&golden.m);
        kvr_st_close(&golden.file);
    }
    free(lora);
    free(path);
    return st;
}

/* ---- UniPC ---------------------------------------------------------------------------------- */

/* Compares a table of UniPC, for example "n4.shift5.sigmas" or "n4.shift5.timesteps" for 4 steps
 * and a timestep shift of 5. */
static enum kvr_status check_solver_table(struct kvr_checker *k, const char *name)
{
    float sigmas[KVR_MAX_STEPS + 1];
    struct kvr_unipc u;
    double shift;
    int n, used = 0;

    if (sscanf(name, "n%d.shift%lf%n", &n, &shift, &used) != 2 || n < 1 || n > KVR_MAX_STEPS ||
        !(shift > 0))
        return KVR_OK;
    used -= name[used - 1] == '.'; /* "%lf" reads "5." of "5.sigmas" */
    kvr_unipc_make(&u, n, shift);
    for (int i = 0; i <= n; i++)
        sigmas[i] = (float)u.sigma[i];
    if (strcmp(name + used, ".sigmas") == 0)
        return kvr_checker_compare_table(k, name, sigmas, n + 1);
    if (strcmp(name + used, ".timesteps") == 0)
        return kvr_checker_compare_table(k, name, u.timestep, n);
    return KVR_OK;
}

/* A run of the UniPC solver that reads recorded outputs of the model (flows) instead of running the
 * model. A sample and a flow have n values each. */
struct solver_run {
    struct kvr_unipc u;
    int64_t n;
    const float *flows; /* [steps, n] */
    float *x, *from, *m[3];
};

static void solver_blend(const struct solver_run *r, struct kvr_unipc_weights w, const float *x,
                         float *out)
{
    const struct kvr_blend b = { .n = 4,
                                 .c = { w.x, w.now, w.before, w.before_2 },
                                 .x = { x, r->m[0], r->m[1], r->m[2] } };

    kvr_blend(r->n, &b, out);
}

static void solver_step(struct solver_run *r, int i)
{
    float *oldest = r->m[2];

    r->m[2] = r->m[1];
    r->m[1] = r->m[0];
    r->m[0] = oldest;
    kvr_x0_from_flow(r->n, r->x, r->flows + i * r->n, (float)r->u.sigma[i], r->m[0]);
    if (i > 0)
        solver_blend(r, kvr_unipc_correct(&r->u, i), r->from, r->from);
    else
        memcpy(r->from, r->x, (size_t)r->n * sizeof *r->x);
    solver_blend(r, kvr_unipc_predict(&r->u, i), r->from, r->x);
}

/* Repeats a recorded run of UniPC and compares the sample after each step. For "run4", a run of 4
 * steps, run4.x0 is the initial sample, run4.flows [4, ...] has the outputs of the model, and
 * run4.states [4, ...] the samples after each step. */
static enum kvr_status check_solver_run(struct kvr_checker *k, const char *name)
{
    char run[16], part[32];
    struct solver_run r = { 0 };
    struct kvr_tensor begin;
    const float *x0;
    float *work, *states;
    int n_steps, used = 0;
    enum kvr_status st;

    if (sscanf(name, "run%d.states%n", &n_steps, &used) != 1 || name[used] || n_steps < 1 ||
        n_steps > KVR_MAX_STEPS)
        return KVR_OK;
    snprintf(run, sizeof run, "run%d", n_steps);
    kvr_unipc_make(&r.u, n_steps, k->c->timestep_shift);
    snprintf(part, sizeof part, "%s.x0", run);
    KVR_TRY(kvr_st_get(k->file, part, &begin));
    r.n = kvr_tensor_count(&begin);
    KVR_TRY(kvr_checker_input(k, part, r.n, &x0));
    snprintf(part, sizeof part, "%s.flows", run);
    KVR_TRY(kvr_checker_input(k, part, n_steps * r.n, &r.flows));
    work = calloc((size_t)(5 + n_steps) * (size_t)r.n, sizeof *work);
    if (!work)
        return kvr_fail(KVR_ENOMEM,
                        "check: out of memory while allocating the latents of %d denoising steps",
                        n_steps);
    r.x = work;
    r.from = work + r.n;
    for (int i = 0; i < 3; i++)
        r.m[i] = work + (2 + i) * r.n;
    states = work + 5 * r.n;
    memcpy(r.x, x0, (size_t)r.n * sizeof *r.x);
    for (int i = 0; i < n_steps; i++) {
        solver_step(&r, i);
        memcpy(states + i * r.n, r.x, (size_t)r.n * sizeof *r.x);
    }
    st = kvr_checker_compare_table(k, name, states, n_steps * r.n);
    free(work);
    return st;
}

static bool is_solver_input(const char *name)
{
    const char *dot = strrchr(name, '.');

    return strncmp(name, "run", 3) == 0 && dot && (!strcmp(dot, ".x0") || !strcmp(dot, ".flows"));
}

enum kvr_status kvr_check_unipc(struct kvr_checker *k)
{
    for (int i = 0; i < kvr_st_count(k->file); i++) {
        const char *name = kvr_st_name(k->file, i);

        KVR_TRY(check_solver_table(k, name));
        KVR_TRY(check_solver_run(k, name));
        if (!is_solver_input(name) && !kvr_check_has(k->report, name))
            KVR_TRY(kvr_check_note(k->report, name, KVR_CHECK_UNKNOWN,
                                   "not compared: the engine computes no tensor of this name"));
    }
    return KVR_OK;
}
