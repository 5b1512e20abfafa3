/* estimate.c - see estimate.h. */
#include "harness/run/estimate.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "harness/core/machine.h"
#include "harness/core/result_cache.h"
#include "harness/core/rng.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/geometry.h"
#include "harness/plan/resources.h"

enum { ROWS = 1560, WIDTH = 1536, ROUNDS = 3 };

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static uint64_t first_hash(const char *text)
{
    return hash_text(14695981039346656037u, text);
}

/* Hash of the settings that the memory prediction depends on. Prompt, seed and repeat do not change
 * it; neither does the window, because the prediction assumes that all frames are cached. */
static uint64_t cost_hash(const struct kvr_cell *cell)
{
    char text[512];

    snprintf(text, sizeof text, "%p %p %s\n%s %d %s %s %s %s", (const void *)cell->model,
             (const void *)cell->method, cell->plan, cell->fit.value, cell->set.frames,
             cell->set.path, cell->set.attend, cell->set.device, cell->set.compute);
    return first_hash(text);
}

/* Hash set (open addressing) of the work that has been counted, such as encoded prompts. */
struct seen {
    uint64_t *at;
    size_t capacity; /* a power of two */
};

static bool is_new(struct seen *s, uint64_t h)
{
    size_t i;

    h = h ? h : 1; /* 0 marks a free slot, so hash 0 becomes 1 */
    i = (size_t)(h ^ h >> 32) & (s->capacity - 1);

    for (; s->at[i]; i = (i + 1) & (s->capacity - 1))
        if (s->at[i] == h)
            return false;
    s->at[i] = h;
    return true;
}

/* Memory and operations that all cells with the same model, length, window and decoder share. */
struct part {
    const struct kvr_config_model *model;
    int frames, window;
    const char *decoder, *decoder_compute;
    struct kvr_resources need; /* without the memory of the KV cache */
};

static enum kvr_status compute_resources(struct part *p, const struct kvr_cell *cell)
{
    const struct kvr_prediction frames = { .latent_frames = cell->set.frames };
    enum kvr_decoder_kind decoder;
    struct kvr_model_config c;
    enum kvr_dtype type;

    if (p->model == cell->model && p->frames == cell->set.frames && p->window == cell->set.window &&
        !strcmp(p->decoder, cell->set.decoder) &&
        !strcmp(p->decoder_compute, cell->set.decoder_compute))
        return KVR_OK;
    KVR_TRY(kvr_resources_decoder(cell->set.decoder, cell->set.decoder_compute, &decoder, &type));
    KVR_TRY(kvr_resources_config(cell->model->dir, 0, 0, &c));
    kvr_resources_of(&c, &frames, cell->set.window, decoder, type, &p->need);
    kvr_model_config_free(&c);
    p->model = cell->model;
    p->frames = cell->set.frames;
    p->window = cell->set.window;
    p->decoder = cell->set.decoder;
    p->decoder_compute = cell->set.decoder_compute;
    return KVR_OK;
}

static void at_least(int64_t *most, size_t bytes)
{
    *most = (int64_t)bytes > *most ? (int64_t)bytes : *most;
}

/* Raises the largest predicted memory of the sweep to that of this cell, if larger. A cell whose
 * memory cannot be predicted is ignored. */
static enum kvr_status most_memory(const struct kvr_cell *cell, const struct kvr_config *sweep,
                                   size_t activations, struct kvr_run_summary *out)
{
    struct kvr_scheme *scheme = NULL;
    struct kvr_predict_run run = { .latent_frames = cell->set.frames, .stopped = sweep->stopped };
    enum kvr_dtype compute = KVR_F32;
    struct kvr_prediction p;
    struct kvr_geometry geo;
    enum kvr_status st;

    st = kvr_geometry_of(cell->model, sweep->set.model_layers, &geo);
    if (st == KVR_OK)
        st = kvr_cell_scheme(cell, cell->plan, &scheme);
    if (st != KVR_OK)
        return st == KVR_ENOMEM ? st : KVR_OK;
    kvr_path_find(cell->set.path, &run.path);
    kvr_attend_find(cell->set.attend, &run.attend);
    kvr_device_backend(cell->set.device, &run.backend);
    kvr_compute_parse(cell->set.compute, &compute);
    kvr_geometry_compute(&geo, run.backend, compute);
    st = kvr_predict_peak(scheme, &geo, &run, &p);
    if (st == KVR_OK) {
        at_least(&out->predicted_bytes, p.peak);
        at_least(&out->network.memory_bytes, p.peak + activations);
    }
    kvr_scheme_close(&scheme);
    return st == KVR_EINTERRUPTED || st == KVR_ENOMEM ? st : KVR_OK;
}

/* Adds a cell's work by phase: its rollout, encoding of each distinct prompt once, and decoding of
 * its frames. */
static void add_phases(const struct kvr_cell *cell, const struct kvr_resources *n,
                       struct seen *seen, struct kvr_run_summary *out)
{
    out->network.n++;
    out->network.flop += cell->cost;
    if (cell->encodes &&
        is_new(seen, hash_text(first_hash(cell->model->dir), cell->prompt->text))) {
        out->encoder.n++;
        out->encoder.flop += n->text_flop;
        at_least(&out->encoder.memory_bytes, n->text_bytes);
    }
    if (cell->no_frames)
        return;
    if (n->decoder_flop > 0) {
        out->decoder.n++;
        out->decoder.flop += n->decoder_flop;
        at_least(&out->decoder.memory_bytes,
                 n->decoder_weights + n->decoder_states + n->decoder_frames);
    }
    if (is_new(seen, first_hash(cell->rollout)))
        out->frames_bytes += (int64_t)n->frames_file;
}

struct kit {
    struct kvr_dev *dev;
    struct kvr_gemm *gemm;
    struct kvr_linear *linear;
    struct kvr_buf x, w, y;
};

static enum kvr_status kit_open(struct kit *k)
{
    KVR_TRY(kvr_dev_open(&k->dev, KVR_CPU));
    KVR_TRY(kvr_buf_alloc(&k->x, k->dev, KVR_MEM_IO, (size_t)ROWS * WIDTH * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->w, k->dev, KVR_MEM_IO, (size_t)WIDTH * WIDTH * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->y, k->dev, KVR_MEM_IO, (size_t)ROWS * WIDTH * sizeof(float)));
    kvr_uniform(k->x.p, (size_t)ROWS * WIDTH, 1, KVR_RNG_SYNTHETIC, 4, 0, 0);
    kvr_uniform(k->w.p, (size_t)WIDTH * WIDTH, 1, KVR_RNG_SYNTHETIC, 5, 0, 0);
    KVR_TRY(kvr_gemm_open(&k->gemm, k->dev));
    KVR_TRY(kvr_linear_open(&k->linear, k->gemm, WIDTH, WIDTH, k->w.p, NULL));
    return kvr_linear_prepare(k->linear, ROWS);
}

static void kit_close(struct kit *k)
{
    kvr_linear_close(&k->linear);
    kvr_gemm_close(&k->gemm);
    kvr_buf_free(&k->x);
    kvr_buf_free(&k->w);
    kvr_buf_free(&k->y);
    kvr_dev_close(&k->dev);
}

/* Measures the rate of linear layers in operations per second, as the best of a few rounds. */
static enum kvr_status measure_rate(int threads, double *rate)
{
    const int before = omp_get_max_threads();
    struct kit k = { 0 };
    enum kvr_status st;

    omp_set_num_threads(threads);
    st = kit_open(&k);
    for (int i = 0; i < ROUNDS && st == KVR_OK; i++) {
        const struct kvr_linear *l = k.linear;
        float *y = k.y.p;
        const int64_t start = kvr_now_ns();
        double now;

        st = kvr_linear_run(k.gemm, ROWS, k.x.p, 1, &l, &y);
        now = 2.0 * ROWS * WIDTH * WIDTH / ((double)(kvr_now_ns() - start + 1) * 1e-9);
        *rate = now > *rate ? now : *rate;
    }
    kit_close(&k);
    omp_set_num_threads(before);
    return st;
}

/* Returns the highest rate (FLOP/s) measured on this processor, now or in earlier runs, because
 * load of other programs may lower the present measurement. */
static enum kvr_status best_rate(int threads, double *rate)
{
    char cpu[160], key[256];

    KVR_TRY(measure_rate(threads, rate));
    snprintf(key, sizeof key, "%s, %s, %d threads", kvr_cpu_name(cpu, sizeof cpu),
             kvr_isa_name(kvr_isa()), threads);
    *rate = kvr_max_remembered("linear layer, FLOP/s", key, *rate);
    return KVR_OK;
}

static enum kvr_status add_all(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                               struct seen *seen, int *threads, struct kvr_run_summary *out)
{
    struct part part = { 0 };

    for (int i = 0; i < sweep->n_cells; i++) {
        const struct kvr_cell *cell = &sweep->cell[i];

        if (jobs[i].state != KVR_WAITING)
            continue;
        if (strcmp(cell->set.device, "cpu") == 0)
            *threads = cell->set.threads;
        out->flop += cell->cost;
        if (!cell->model->trace) { /* replaying a trace computes only attention */
            KVR_TRY(compute_resources(&part, cell));
            add_phases(cell, &part.need, seen, out);
        }
        if (is_new(seen, cost_hash(cell)))
            KVR_TRY(most_memory(cell, sweep->config, part.need.activations, out));
    }
    return KVR_OK;
}

enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                             struct kvr_run_summary *out)
{
    struct seen seen = { NULL, 64 };
    enum kvr_status st;
    int threads = 0;

    out->flop = out->flop_per_s = 0;
    out->predicted_bytes = 0;
    /* at most 3 hashes per cell, which fill at most half of the table */
    while (seen.capacity < 6 * (size_t)sweep->n_cells)
        seen.capacity *= 2;
    seen.at = calloc(seen.capacity, sizeof *seen.at);
    if (!seen.at)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating %d cells", sweep->n_cells);
    st = add_all(sweep, jobs, &seen, &threads, out);
    free(seen.at);
    return st == KVR_OK && threads ? best_rate(threads, &out->flop_per_s) : st;
}
