/* rows_cpu.c - implements rows.h on the CPU. */
#include "harness/cache/rows_impl.h"

#include <string.h>

/* minimum number of values for which several threads are faster than one */
enum { WORTH_A_TEAM = 1 << 17 };

static void gather(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                   int64_t n, int64_t tok0, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n * (int64_t)width >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * width, x + (size_t)(list[i] - tok0) * width, width * sizeof *x);
}

static void scatter(struct kvr_dev *dev, const float *x, size_t width, const int32_t *list,
                    int64_t n, int64_t tok0, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n * (int64_t)width >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)(list[i] - tok0) * width, x + (size_t)i * width, width * sizeof *x);
}

static void repeat(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n * (int64_t)width >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * width, x, width * sizeof *x);
}

static void mean(struct kvr_dev *dev, const float *x, size_t width, int64_t n, float *out)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n * (int64_t)width >= WORTH_A_TEAM)
    for (size_t c = 0; c < width; c++) {
        double sum = 0;

        for (int64_t t = 0; t < n; t++)
            sum += x[(size_t)t * width + c];
        out[c] = (float)(sum / (double)n);
    }
}

static void from_f32(struct kvr_dev *dev, void *to, enum kvr_dtype type, const float *from,
                     size_t n)
{
    (void)dev;
    kvr_from_f32(to, type, from, n);
}

static void to_f32(struct kvr_dev *dev, float *to, const void *from, enum kvr_dtype type, size_t n)
{
    (void)dev;
    kvr_to_f32(to, from, type, n);
}

static void round_bf16(struct kvr_dev *dev, float *x, size_t n)
{
    enum { PART = 2048, TEAM = 16 * PART };

    (void)dev;
#pragma omp parallel for schedule(static) if (n > TEAM)
    for (size_t i = 0; i < n; i += PART) {
        const size_t here = n - i < PART ? n - i : PART;
        kvr_bf16 narrow[PART];

        kvr_from_f32(narrow, KVR_BF16, x + i, here);
        kvr_to_f32(x + i, narrow, KVR_BF16, here);
    }
}

const struct kvr_rows_kind kvr_rows_cpu = {
    .gather = gather,
    .scatter = scatter,
    .repeat = repeat,
    .mean = mean,
    .from_f32 = from_f32,
    .to_f32 = to_f32,
    .round_bf16 = round_bf16,
};
