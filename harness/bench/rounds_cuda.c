/* rounds_cuda.c - see rounds_cuda.h. */
#include "harness/bench/rounds_cuda.h"

#include <math.h>
#include <stdlib.h>

#include "harness/core/dtype.h"
#include "harness/core/rng.h"
#include "harness/device/gpu_state.h"
#include "harness/device/names.h"
#include "harness/device/stream.h"

enum { WARM_ROUNDS = 2 };

/* Launches the work t->times times between two events. Launch i uses buffer first + i * step; if
 * `step` is 0, all launches use the same buffer. */
static enum kvr_status stretch(const struct kvr_rounds *t, kvr_round_fn *work, int first, int step,
                               int64_t *begin, int64_t *end)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);

    if (t->busy)
        kvr_device_fill(s, t->busy->p, 0, t->busy->n_bytes);
    if (step == 0) /* an untimed launch loads the buffer into L2 */
        KVR_TRY(work(t->ctx, first));
    *begin = kvr_stream_mark(s);
    for (int i = 0; i < t->times; i++)
        KVR_TRY(work(t->ctx, first + i * step));
    *end = kvr_stream_mark(s);
    return KVR_OK;
}

/* Clock frequency and power of the GPU in each round. If g is NULL, they are not available. */
struct load {
    struct kvr_gpu_states *g;
    char uuid[1][KVR_UUID_LEN]; /* UUID of the first visible GPU, on which the stream runs */
    double mhz[KVR_BENCH_MAX_ROUNDS], watts[KVR_BENCH_MAX_ROUNDS];
    int n;
};

static void sample_load(struct load *l)
{
    struct kvr_gpu_state now;

    if (!l->g || l->n == KVR_BENCH_MAX_ROUNDS || !kvr_gpu_sample(l->g, l->uuid[0], &now))
        return;
    l->mhz[l->n] = now.mhz;
    l->watts[l->n++] = now.watts;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the median of x [n]; 0 if n is 0 or a value is not finite. */
static double median(double *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return 0;
    if (!n)
        return 0;
    qsort(x, (size_t)n, sizeof *x, by_size);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* Computes the time of one launch. A total of 0, which small work on an emulated device can have,
 * is replaced by 1 ns. */
static enum kvr_status elapsed(const struct kvr_rounds *t, int64_t begin, int64_t end, double *ns)
{
    int64_t all;

    KVR_TRY(kvr_stream_elapsed(kvr_dev_stream(t->dev), begin, end, &all));
    *ns = (double)(all > 0 ? all : 1) / t->times;
    return KVR_OK;
}

static enum kvr_status one_round(const struct kvr_rounds *t, int round, struct load *load,
                                 double *ns, double *reference_ns)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);
    int64_t a, b, c, d;

    kvr_stream_forget_marks(s);
    KVR_TRY(stretch(t, t->reference, round * t->times, 1, &a, &b));
    KVR_TRY(stretch(t, t->run, round * t->times, 1, &c, &d));
    sample_load(load);
    KVR_TRY(kvr_stream_sync(s));
    KVR_TRY(elapsed(t, a, b, reference_ns));
    return elapsed(t, c, d, ns);
}

static enum kvr_status warm_round(const struct kvr_rounds *t, double *ns)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);
    int64_t a, b;

    kvr_stream_forget_marks(s);
    KVR_TRY(stretch(t, t->run, 0, 0, &a, &b));
    KVR_TRY(kvr_stream_sync(s));
    return elapsed(t, a, b, ns);
}

static enum kvr_status all_rounds(const struct kvr_rounds *t, struct load *load,
                                  struct kvr_round_times *out)
{
    double ratio[KVR_BENCH_MAX_ROUNDS];
    bool last = false;

    for (int i = 0; i < WARM_ROUNDS; i++)
        KVR_TRY(one_round(t, i, load, out->ns, out->reference_ns));
    for (out->n_warm = 0; out->n_warm < kvr_bench_cache_rounds(t->rounds); out->n_warm++)
        KVR_TRY(warm_round(t, &out->warm_ns[out->n_warm]));
    load->n = 0;
    for (out->n = 0; !last; out->n++) {
        const int n = out->n;

        last = kvr_bench_last(ratio, n, t->rounds);
        KVR_TRY(one_round(t, WARM_ROUNDS + n, load, &out->ns[n], &out->reference_ns[n]));
        ratio[n] = out->reference_ns[n] / out->ns[n];
    }
    return KVR_OK;
}

enum kvr_status kvr_rounds_run(const struct kvr_rounds *t, struct kvr_round_times *out)
{
    struct load *load = calloc(1, sizeof *load);
    enum kvr_status st = KVR_OK;
    char why[128];

    if (!load)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    if (kvr_device_list(load->uuid, 1) == 1)
        st = kvr_gpu_states_open(&load->g, why, sizeof why);
    if (st == KVR_OK)
        st = all_rounds(t, load, out);
    out->mhz = median(load->mhz, load->n);
    out->watts = median(load->watts, load->n);
    kvr_gpu_states_close(&load->g);
    free(load);
    return st;
}

void kvr_rounds_fill(struct kvr_bench_row *row, const struct kvr_round_times *times, double work)
{
    double v[KVR_BENCH_MAX_ROUNDS], ratio[KVR_BENCH_MAX_ROUNDS], cold[KVR_BENCH_CACHE_ROUNDS],
        warm[KVR_BENCH_CACHE_ROUNDS];

    for (int i = 0; i < times->n; i++) {
        v[i] = work / times->ns[i];
        ratio[i] = times->reference_ns[i] / times->ns[i];
    }
    for (int i = 0; i < times->n_warm; i++)
        warm[i] = work / times->warm_ns[i];
    kvr_bench_fill(row, v, ratio, times->n);
    row->mhz = times->mhz;
    row->watts = times->watts;
    for (int i = 0; i < times->n_warm; i++)
        cold[i] = row->median; /* median over all rounds */
    kvr_bench_fill_caches(row, cold, warm, times->n_warm);
}

enum kvr_status kvr_rounds_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n)
{
    struct kvr_device_info info;
    size_t need;

    KVR_TRY(kvr_device_info(kvr_dev_stream(dev), &info));
    need = 1 + 2 * info.l2_bytes / (n_bytes ? n_bytes : 1);
    *n = need > (size_t)most ? most : (int)need;
    return KVR_OK;
}

void kvr_rounds_judge(const struct kvr_dev *dev, struct kvr_bench_row *row)
{
    row->device = kvr_dev_name(dev);
    if (kvr_stream_emulated()) {
        kvr_bench_without(row, "the CPU emulated the kernels: their times do not apply to a GPU");
        row->cold = row->warm = NAN;
    }
}

enum kvr_status kvr_rounds_draw_bf16(float **x, size_t n, uint32_t which)
{
    *x = malloc(n * sizeof **x);
    if (!*x)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_normal(*x, n, 1, KVR_RNG_SYNTHETIC, which, 0, 0);
    for (size_t i = 0; i < n; i++)
        (*x)[i] = kvr_bf16_to_f32(kvr_f32_to_bf16((*x)[i]));
    return KVR_OK;
}
