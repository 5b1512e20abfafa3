/* check.c - repeats the tests of a parity folder, which has recorded tensors of the reference
 * implementation. Every recorded tensor is compared. */
#include "harness/engine/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/engine/check_impl.h"

static enum kvr_status set_prompt(struct kvr_checker *k)
{
    const float *P;

    KVR_TRY(kvr_checker_input(k, "prompt_embeds", (int64_t)k->c->text_len * k->c->text_dim, &P));
    return kvr_dit_set_prompt(k->d, P);
}

/* Compares a recorded table of sigmas or timesteps, for example "shift5.sigmas" for a timestep
 * shift of 5. Ignores tensors with other names. */
static enum kvr_status check_tables(struct kvr_checker *k, const char *name)
{
    const char *dot = strrchr(name, '.');
    struct kvr_model_config other = *k->c;
    struct kvr_schedule s;
    char number[16];
    char *end;

    if (!dot || strncmp(name, "shift", 5) != 0 || dot - name - 5 >= (int)sizeof number)
        return KVR_OK;
    snprintf(number, sizeof number, "%.*s", (int)(dot - name - 5), name + 5);
    other.timestep_shift = strtod(number, &end);
    if (end == number || *end || !(other.timestep_shift > 0))
        return KVR_OK;
    kvr_schedule_make(&s, &other);
    if (strcmp(dot, ".sigmas") == 0)
        return kvr_checker_compare_table(k, name, s.table_sigma, 1000);
    if (strcmp(dot, ".timesteps") == 0)
        return kvr_checker_compare_table(k, name, s.table_timestep, 1000);
    return KVR_OK;
}

static enum kvr_status check_scheduler(struct kvr_checker *k)
{
    static const char *const inputs[] = { NULL };
    const struct kvr_schedule *s = &k->schedule;
    const float context = (float)k->c->context_timestep;
    float index[KVR_MAX_STEPS], context_index = (float)kvr_schedule_index(s, context);
    float context_sigma = kvr_schedule_sigma(s, context);

    for (int i = 0; i < kvr_st_count(k->file); i++)
        KVR_TRY(check_tables(k, kvr_st_name(k->file, i)));
    for (int i = 0; i < s->n_steps; i++)
        index[i] = (float)kvr_schedule_index(s, s->timestep[i]);
    KVR_TRY(kvr_checker_compare_table(k, "denoise.timesteps", s->timestep, s->n_steps));
    KVR_TRY(kvr_checker_compare_table(k, "denoise.index", index, s->n_steps));
    KVR_TRY(kvr_checker_compare_table(k, "denoise.sigmas", s->sigma, s->n_steps));
    KVR_TRY(kvr_checker_compare_table(k, "context.index", &context_index, 1));
    KVR_TRY(kvr_checker_compare_table(k, "context.sigma", &context_sigma, 1));
    return kvr_checker_note_rest(k, inputs);
}

static void tap(void *ctx, const char *name, const float *data, int64_t n)
{
    struct kvr_checker *k = ctx;

    if (!k->test || k->tap_status != KVR_OK)
        return;
    k->tap_status = kvr_checker_compare(k, name, data, n);
    if (k->tap_status == KVR_OK)
        k->tap_status = kvr_checker_compare_part(k, k->test, name, data, n);
}

/* Compares the cached keys and values of the last layer, and separately those of its newest
 * chunk. */
static enum kvr_status compare_cache(struct kvr_checker *k, const char *test,
                                     const struct kvr_cache *cache, float *keys, float *values)
{
    const int64_t token = k->c->dim, tail = k->chunk_kv;
    int64_t n;

    KVR_TRY(kvr_cache_read(cache, k->c->n_layers - 1, keys, values, &n));
    n *= token;
    KVR_TRY(kvr_checker_compare_part(k, test, "cache_k_last", keys, n));
    KVR_TRY(kvr_checker_compare_part(k, test, "cache_v_last", values, n));
    if (n < tail)
        return KVR_OK;
    KVR_TRY(kvr_checker_compare_part(k, test, "cache_k_last_tail", keys + n - tail, tail));
    return kvr_checker_compare_part(k, test, "cache_v_last_tail", values + n - tail, tail);
}

struct forward_test {
    const char *name; /* name of the test, for example "a" */
    const char *x;    /* name of the tensor with the input latents */
    const char *t;    /* name of the tensor with the timesteps; NULL: all timesteps are 0 */
    int chunk;
    bool fresh; /* the test starts with an empty cache */
};

static const struct forward_test forward_tests[] = {
    { "b", "a.x", "b.timestep", 0, true },
    { "a", "a.x", "a.timestep", 0, true },
    { "c", "c.x", "c.timestep", 1, false },
    { "d", "c.x0", NULL, 1, false },
};

/* Repeats a recorded forward pass and compares its results. `work` has room for the latents of two
 * chunks, followed by the keys and values of two chunks. on_device has room for the latents of two
 * chunks. */
static enum kvr_status forward_test(struct kvr_checker *k, const struct forward_test *f,
                                    struct kvr_cache *cache, float *work, float *on_device)
{
    static const float zeros[64];
    const int n_frames = k->c->frames_per_chunk;
    const int64_t n = k->chunk_elems, frame = n / n_frames;
    const struct kvr_pass pass = {
        .chunk = f->chunk, .frame0 = f->chunk * n_frames, .n_frames = n_frames, .clean = true
    }; /* a cache-update pass, which stores the chunk */
    float *out = work, *x0 = work + n, *keys = work + 2 * n;
    const float *x, *t = zeros;

    if (!kvr_st_has(k->file, f->x) || (f->t && !kvr_st_has(k->file, f->t)))
        return KVR_OK;
    KVR_TRY(kvr_checker_input(k, f->x, n, &x));
    if (f->t)
        KVR_TRY(kvr_checker_input(k, f->t, n_frames, &t));
    if (f->fresh)
        kvr_cache_reset(cache);
    k->test = f->name;
    KVR_TRY(kvr_checker_forward(k, cache, x, t, &pass, on_device, out));
    KVR_TRY(k->tap_status);
    KVR_TRY(kvr_checker_compare_part(k, f->name, "flow", out, n));
    for (int i = 0; i < n_frames; i++)
        kvr_x0_from_flow(frame, x + i * frame, out + i * frame,
                         kvr_schedule_sigma(&k->schedule, t[i]), x0 + i * frame);
    KVR_TRY(kvr_checker_compare_part(k, f->name, "x0", x0, n));
    return compare_cache(k, f->name, cache, keys, keys + 2 * k->chunk_kv);
}

static enum kvr_status check_forward(struct kvr_checker *k)
{
    static const char *const inputs[] = { "prompt_embeds", "a.x", "a.timestep", "b.timestep",
                                          "c.timestep",    "c.x", NULL };
    const int64_t capacity = 2 * k->chunk_elems + 4 * k->chunk_kv;
    struct kvr_cache *cache = NULL;
    struct kvr_buf work = { 0 }, on_device = { 0 };
    enum kvr_status st;

    KVR_TRY(
        kvr_buf_alloc(&work, kvr_dev_host(k->dev), KVR_MEM_IO, (size_t)capacity * sizeof(float)));
    st = kvr_buf_alloc(&on_device, k->dev, KVR_MEM_IO, 2 * (size_t)k->chunk_elems * sizeof(float));
    if (st == KVR_OK)
        st = kvr_checker_open_cache(k, k->scheme, &cache, 2 * k->c->frames_per_chunk, 0, 0);
    kvr_dit_tap(k->d, tap, k);
    k->test = "a"; /* the tensors of cross-attention were recorded in test "a" */
    if (st == KVR_OK)
        st = set_prompt(k);
    for (size_t i = 0; i < sizeof forward_tests / sizeof *forward_tests && st == KVR_OK; i++)
        st = forward_test(k, &forward_tests[i], cache, work.p, on_device.p);
    kvr_dit_tap(k->d, NULL, NULL);
    k->test = NULL;
    kvr_cache_close(&cache);
    kvr_buf_free(&on_device);
    kvr_buf_free(&work);
    return st == KVR_OK ? kvr_checker_note_rest(k, inputs) : st;
}

struct rollout {
    struct kvr_checker *k;
    const char *name;
    struct kvr_cache *cache;
    int n_chunks, window, sink;
    const float *noise; /* initial noise [latent frames, frame_elems] */
    /* noise added after each step except the last, [chunks, steps - 1, chunk_elems] */
    const float *renoise;
    /* generated latents [latent frames, frame_elems], and the clean latents that each step
     * predicts, [chunks, steps, chunk_elems] */
    float *latents, *x0;
    /* cached keys and values of the last layer after the rollout, [tokens, dim] each */
    float *keys, *values;
};

static enum kvr_status recorded_noise(void *ctx, int chunk, int step, int frame0, int n_frames,
                                      int64_t frame_elems, float *dst)
{
    const struct rollout *r = ctx;
    const int64_t n = n_frames * frame_elems;
    const int per_chunk = r->k->c->n_steps - 1;

    memcpy(dst,
           step < 0 ? r->noise + frame0 * frame_elems
                    : r->renoise + ((int64_t)chunk * per_chunk + step) * n,
           (size_t)n * sizeof *dst);
    return KVR_OK;
}

static enum kvr_status keep_x0(void *ctx, int chunk, int step, const float *x0, int n_frames)
{
    struct rollout *r = ctx;
    const int64_t n = r->k->chunk_elems;

    (void)n_frames;
    memcpy(r->x0 + ((int64_t)chunk * r->k->c->n_steps + step) * n, x0, (size_t)n * sizeof *x0);
    return KVR_OK;
}

static enum kvr_status rollout(struct rollout *r)
{
    struct kvr_checker *k = r->k;
    const int n_frames = r->n_chunks * k->c->frames_per_chunk;
    const struct kvr_sample_hooks hooks = { .ctx = r, .step = keep_x0 };
    enum kvr_status st;

    KVR_TRY(kvr_checker_open_cache(k, k->scheme, &r->cache, n_frames, r->window, r->sink));
    st = kvr_sample(k->d, r->cache, n_frames, recorded_noise, r, &hooks, r->latents);
    if (st == KVR_OK)
        st = kvr_checker_compare_part(k, r->name, "latents", r->latents,
                                      r->n_chunks * k->chunk_elems);
    if (st == KVR_OK)
        st = kvr_checker_compare_part(k, r->name, "x0", r->x0,
                                      (int64_t)r->n_chunks * k->c->n_steps * k->chunk_elems);
    if (st == KVR_OK)
        st = compare_cache(k, r->name, r->cache, r->keys, r->values);
    kvr_cache_close(&r->cache);
    return st;
}

/* Parses the name of a tensor with the latents of a rollout: "global.latents", or
 * "roll_w6_s1.latents" for a window of 6 frames and a sink of 1 frame. Returns false for other
 * names. */
static bool parse_run(const char *tensor, char name[64], int *window, int *sink)
{
    const char *dot = strchr(tensor, '.');
    int used = 0;

    if (!dot || strcmp(dot, ".latents") != 0 || dot - tensor >= 64)
        return false;
    snprintf(name, 64, "%.*s", (int)(dot - tensor), tensor);
    *window = *sink = 0;
    if (strcmp(name, "global") == 0)
        return true;
    return sscanf(name, "roll_w%d_s%d%n", window, sink, &used) == 2 && !name[used] && *window > 0 &&
           *sink >= 0;
}

static enum kvr_status check_runs(struct kvr_checker *k, struct rollout *base, struct kvr_buf *work)
{
    const int64_t n = k->chunk_elems, kv = base->n_chunks * k->chunk_kv;
    const float steps = (float)k->c->context_timestep;
    float timesteps[KVR_MAX_STEPS + 1];
    char name[64];

    base->latents = work->p;
    base->x0 = base->latents + base->n_chunks * n;
    base->keys = base->x0 + (int64_t)base->n_chunks * k->c->n_steps * n;
    base->values = base->keys + kv;
    memcpy(timesteps, k->schedule.timestep, (size_t)k->c->n_steps * sizeof *timesteps);
    timesteps[k->c->n_steps] = steps;
    KVR_TRY(kvr_checker_compare_table(k, "timesteps", timesteps, k->c->n_steps + 1));
    for (int i = 0; i < kvr_st_count(k->file); i++) {
        struct rollout r = *base;

        if (!parse_run(kvr_st_name(k->file, i), name, &r.window, &r.sink))
            continue;
        r.name = name;
        KVR_TRY(rollout(&r));
    }
    return KVR_OK;
}

static enum kvr_status check_loop(struct kvr_checker *k)
{
    static const char *const inputs[] = { "prompt_embeds", "noise", "renoise", NULL };
    struct rollout base = { .k = k };
    struct kvr_buf work = { 0 };
    struct kvr_tensor noise;
    enum kvr_status st;
    int64_t capacity;

    KVR_TRY(kvr_st_get(k->file, "noise", &noise));
    if (kvr_tensor_count(&noise) < k->chunk_elems || kvr_tensor_count(&noise) % k->chunk_elems)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: tensor 'noise' has %lld values, need a multiple of %lld (the values of one chunk)",
            kvr_st_path(k->file), (long long)kvr_tensor_count(&noise), (long long)k->chunk_elems);
    base.n_chunks = (int)(kvr_tensor_count(&noise) / k->chunk_elems);
    KVR_TRY(kvr_checker_input(k, "noise", base.n_chunks * k->chunk_elems, &base.noise));
    KVR_TRY(kvr_checker_input(k, "renoise",
                              (int64_t)base.n_chunks * (k->c->n_steps - 1) * k->chunk_elems,
                              &base.renoise));
    KVR_TRY(set_prompt(k));
    capacity = base.n_chunks * ((1 + k->c->n_steps) * k->chunk_elems + 2 * k->chunk_kv);
    KVR_TRY(
        kvr_buf_alloc(&work, kvr_dev_host(k->dev), KVR_MEM_IO, (size_t)capacity * sizeof(float)));
    st = check_runs(k, &base, &work);
    kvr_buf_free(&work);
    return st == KVR_OK ? kvr_checker_note_rest(k, inputs) : st;
}

static enum kvr_status check_file(struct kvr_checker *k, const char *name,
                                  enum kvr_status (*fn)(struct kvr_checker *k))
{
    char *path = kvr_path_join(k->dir, name);
    enum kvr_status st = KVR_OK;

    if (!path)
        return kvr_fail(KVR_ENOMEM, "check: out of memory");
    if (!kvr_path_exists(path)) {
        free(path);
        return KVR_OK;
    }
    st = kvr_st_open(&k->file, path);
    if (st == KVR_OK)
        st = fn(k);
    kvr_st_close(&k->file);
    free(path);
    return st;
}

static const struct {
    const char *file;
    enum kvr_status (*fn)(struct kvr_checker *k);
} parts[] = {
    { "scheduler.safetensors", check_scheduler }, { "forward.safetensors", check_forward },
    { "loop.safetensors", check_loop },           { "golden.safetensors", kvr_check_shots },
    { "unipc.safetensors", kvr_check_unipc },     { "lora_golden.safetensors", kvr_check_lora },
};

bool kvr_engine_check_has_files(const char *dir)
{
    bool there = false;

    for (size_t i = 0; i < sizeof parts / sizeof *parts && !there; i++) {
        char *path = kvr_path_join(dir, parts[i].file);

        there = path && kvr_path_exists(path);
        free(path);
    }
    return there;
}

static enum kvr_status check_all(struct kvr_checker *k)
{
    KVR_TRY(kvr_checker_open(k));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        KVR_TRY(check_file(k, parts[i].file, parts[i].fn));
    if (k->report->n == 0)
        return kvr_fail(
            KVR_ENOTFOUND,
            "%s: the folder has no recorded tensors to compare: need scheduler.safetensors, "
            "forward.safetensors, loop.safetensors, golden.safetensors or unipc.safetensors",
            k->dir);
    return KVR_OK;
}

enum kvr_status kvr_engine_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how)
{
    struct kvr_checker k = { .dir = dir, .report = out };

    if (how)
        k.how = *how;
    return kvr_checker_close(&k, check_all(&k));
}
