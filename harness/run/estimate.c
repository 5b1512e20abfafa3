/* estimate.c - see estimate.h. */
#include "harness/run/estimate.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/core/clock.h"
#include "harness/core/rng.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/geometry.h"

enum { ROWS = 1560, WIDTH = 1536, ROUNDS = 3 };

/* What memory and operations hang on; cells that differ in prompt, seed or repeat alone are alike.
 */
static uint64_t alike(const struct kvr_cell *cell)
{
    uint64_t h = 14695981039346656037u;
    char text[512];
    const int n =
        snprintf(text, sizeof text, "%s\n%s\n%d %d %d %d %d %s %s %s %s %p", cell->model->dir,
                 cell->plan, cell->set.frames, cell->set.window, cell->set.sink, cell->set.evict,
                 cell->set.warmup, cell->set.path, cell->set.attend, cell->set.device,
                 cell->set.compute, (const void *)cell->method);

    for (int i = 0; i < n && i < (int)sizeof text - 1; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h ? h : 1;
}

/* Keeps what it has seen; a place for each cell is more than it needs. */
struct seen {
    uint64_t *at;
    size_t room; /* a power of two */
};

static bool is_new(struct seen *s, uint64_t h)
{
    size_t i = (size_t)(h ^ h >> 32) & (s->room - 1);

    for (; s->at[i]; i = (i + 1) & (s->room - 1))
        if (s->at[i] == h)
            return false;
    s->at[i] = h;
    return true;
}

/* A cell that cannot be predicted is no reason not to plan it. */
static void most_memory(const struct kvr_cell *cell, const struct kvr_config *sweep, int64_t *most)
{
    struct kvr_scheme *scheme = NULL;
    struct kvr_predict_run run = { .latent_frames = cell->set.frames };
    enum kvr_dtype compute = KVR_F32;
    struct kvr_prediction p;
    struct kvr_geometry geo;

    if (cell->model->trace)
        kvr_geometry_of_trace(kvr_trace_info(cell->model->trace), sweep->set.model_layers, &geo);
    else if (kvr_geometry_find_part(cell->model->dir, sweep->set.model_layers, &geo) != KVR_OK)
        return;
    if (kvr_cell_scheme(cell, cell->plan, &scheme) != KVR_OK)
        return;
    kvr_path_find(cell->set.path, &run.path);
    kvr_attend_find(cell->set.attend, &run.attend);
    kvr_device_backend(cell->set.device, &run.backend);
    kvr_compute_parse(cell->set.compute, &compute);
    kvr_geometry_compute(&geo, run.backend, compute);
    if (kvr_predict_peak(scheme, &geo, &run, &p) == KVR_OK && (int64_t)p.peak > *most)
        *most = (int64_t)p.peak;
    kvr_scheme_close(&scheme);
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

/* Operations a second; the best of a few rounds. */
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

enum kvr_status kvr_estimate(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                            struct kvr_run_summary *out)
{
    struct seen seen = { NULL, 64 };
    int threads = 0;

    out->flop = out->flop_per_s = 0;
    out->predicted_bytes = 0;
    while (seen.room < 2 * (size_t)sweep->n_cells)
        seen.room *= 2;
    seen.at = calloc(seen.room, sizeof *seen.at);
    if (!seen.at)
        return kvr_fail(KVR_ENOMEM, "run: no memory for %d cells", sweep->n_cells);
    for (int i = 0; i < sweep->n_cells; i++) {
        if (jobs[i].state != KVR_WAITING)
            continue;
        if (strcmp(jobs[i].cell->set.device, "cpu") == 0)
            threads = jobs[i].cell->set.threads;
        out->flop += jobs[i].cell->cost;
        if (is_new(&seen, alike(jobs[i].cell)))
            most_memory(jobs[i].cell, sweep->config, &out->predicted_bytes);
    }
    free(seen.at);
    return threads ? measure_rate(threads, &out->flop_per_s) : KVR_OK;
}
