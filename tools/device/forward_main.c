/* forward_main.c - measures the time of a forward pass of the model in DIR, computed in BF16.
 * Prints the mean over ROUNDS passes in ms, in total and by phase, as one line of JSON. Used by
 * tools/device-check.sh.
 *
 *     forward DIR METHOD PAST ROUNDS [PATH]    the KV cache of METHOD holds PAST chunks before the
 *                                              timed passes over the next chunk; PATH is staged or
 *                                              fused (the default) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/device/phase.h"
#include "harness/engine/dit.h"
#include "tools/device/watch.h"

enum { ALL, N_PHASES };

struct kit {
    struct kvr_dev *dev;
    struct kvr_model *model;
    const struct kvr_model_config *c;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dit *dit;
    struct kvr_phases *phases;
    struct kvr_buf x, out;
    float *prompt, *noise;
    int past, rounds;
    enum kvr_path path;
};

static enum kvr_status open_kit(struct kit *t, const char *dir, const char *method)
{
    const struct kvr_model_use use = { .compute = KVR_BF16 };
    struct kvr_cache_shape shape;
    size_t n;

    KVR_TRY(kvr_dev_open(&t->dev, KVR_CUDA));
    KVR_TRY(kvr_model_open_as(&t->model, t->dev, dir, &use));
    t->c = kvr_model_config(t->model);
    n = (size_t)t->c->frames_per_chunk * (size_t)kvr_model_frame_elems(t->model);
    t->prompt = malloc((size_t)t->c->text_len * (size_t)t->c->text_dim * sizeof *t->prompt);
    t->noise = malloc(n * sizeof *t->noise);
    if (!t->prompt || !t->noise)
        return kvr_fail(KVR_ENOMEM, "forward: out of memory");
    shape = (struct kvr_cache_shape){
        .n_layers = t->c->n_layers,
        .n_heads = t->c->n_heads,
        .head_dim = kvr_model_head_dim(t->model),
        .tokens_per_frame = kvr_model_tokens_per_frame(t->model),
        .frames_per_chunk = t->c->frames_per_chunk,
        .capacity_frames = t->c->frames_per_chunk * (t->past + 1),
        .exact = KVR_BF16,
    };
    KVR_TRY(kvr_scheme_open(&t->scheme, method, NULL, 0));
    KVR_TRY(kvr_cache_open(&t->cache, t->dev, t->scheme, &shape, t->path));
    KVR_TRY(kvr_dit_open(&t->dit, t->dev, t->model));
    KVR_TRY(kvr_phases_open(&t->phases, t->dev, N_PHASES));
    KVR_TRY(kvr_buf_alloc(&t->x, t->dev, KVR_MEM_IO, n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&t->out, t->dev, KVR_MEM_IO, n * sizeof(float)));
    kvr_normal(t->noise, n, 1, KVR_RNG_SYNTHETIC, 0, 0, 0);
    KVR_TRY(kvr_dev_put(t->dev, t->x.p, t->noise, n * sizeof(float)));
    KVR_TRY(kvr_model_draw_prompt(t->model, "a red disc", t->prompt));
    return kvr_dit_set_prompt(t->dit, t->prompt);
}

static void close_kit(struct kit *t)
{
    kvr_buf_free(&t->x);
    kvr_buf_free(&t->out);
    kvr_phases_close(&t->phases);
    kvr_dit_close(&t->dit);
    kvr_cache_close(&t->cache);
    kvr_scheme_close(&t->scheme);
    kvr_model_close(&t->model);
    kvr_dev_close(&t->dev);
    free(t->prompt);
    free(t->noise);
}

static enum kvr_status pass(struct kit *t, int chunk, int index, bool clean)
{
    const int frames = t->c->frames_per_chunk;
    const struct kvr_pass p = {
        .chunk = chunk, .frame0 = chunk * frames, .n_frames = frames, .index = index, .clean = clean
    };
    float times[64];

    for (int i = 0; i < frames && i < 64; i++)
        times[i] = 500;
    KVR_TRY(kvr_cache_begin_pass(t->cache, &p));
    KVR_TRY(kvr_dit_forward(t->dit, t->cache, t->x.p, times, &p, t->out.p));
    return kvr_cache_end_pass(t->cache);
}

struct times {
    int64_t all;
    struct kvr_dit_times dit;
    struct kvr_cache_times cache;
};

static enum kvr_status read_times(struct kit *t, struct times *out)
{
    KVR_TRY(kvr_phases_read(t->phases, &out->all));
    KVR_TRY(kvr_dit_times(t->dit, &out->dit));
    return kvr_cache_times(t->cache, &out->cache);
}

static enum kvr_status run(struct kit *t, struct times *before, struct times *after)
{
    for (int c = 0; c < t->past; c++)
        KVR_TRY(pass(t, c, 0, true));
    for (int i = 0; i < 2; i++) /* warm-up: loads kernels, and libraries select theirs */
        KVR_TRY(pass(t, t->past, i, false));
    KVR_TRY(read_times(t, before));
    for (int i = 0; i < t->rounds; i++) {
        kvr_phase_begin(t->phases, ALL);
        KVR_TRY(pass(t, t->past, 2 + i, false));
        kvr_phase_end(t->phases, ALL);
    }
    return read_times(t, after);
}

int main(int argc, char **argv)
{
    struct kit t = { .past = argc > 3 ? atoi(argv[3]) : 0, .rounds = argc > 4 ? atoi(argv[4]) : 0 };
    struct times a = { 0 }, b = { 0 };
    enum kvr_status st;
    char name[128];

    t.path = argc > 5 && !strcmp(argv[5], "staged") ? KVR_PATH_STAGED : KVR_PATH_FUSED;
    if (argc < 5 || argc > 6 || t.past < 0 || t.rounds < 1 ||
        (argc == 6 && strcmp(argv[5], kvr_path_names[t.path]) != 0)) {
        fprintf(stderr, "usage: forward DIR METHOD PAST ROUNDS [staged|fused]\n");
        return 2;
    }
    snprintf(name, sizeof name, "forward.%s.%dspans%s", argv[2], t.past + 1,
             t.path == KVR_PATH_STAGED ? ".staged" : "");
    if (!watch_begin(name))
        return 0;
    st = open_kit(&t, argv[1], argv[2]);
    if (st == KVR_OK)
        st = run(&t, &a, &b);
    if (st == KVR_OK) {
        const double ms = 1e6 * t.rounds;

        printf("{\"name\": \"%s\", \"unit\": \"ms\", \"mean\": %.6g, "
               "\"linear\": %.6g, \"cross\": %.6g, \"attention\": %.6g, \"other\": %.6g, "
               "\"layers\": %d, \"n\": %d}\n",
               name, (double)(b.all - a.all) / ms, (double)(b.dit.linear_ns - a.dit.linear_ns) / ms,
               (double)(b.dit.cross_ns - a.dit.cross_ns) / ms,
               (double)(b.cache.attend_ns - a.cache.attend_ns + b.cache.decode_ns -
                        a.cache.decode_ns) /
                   ms,
               (double)(b.dit.other_ns - a.dit.other_ns) / ms, t.c->n_layers, t.rounds);
    } else {
        fprintf(stderr, "forward: %s\n", kvr_error());
    }
    watch_end();
    close_kit(&t);
    return st == KVR_OK ? 0 : 1;
}
