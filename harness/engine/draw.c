/* draw.c - generates random weights. draw.h has the formula. */
#include "harness/engine/draw.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/engine/draw_cuda.h"

const char *const kvr_draw_version = "uniform 1";

/* Number of weights that a thread generates at a time. It is a multiple of 4, because the generator
 * (rng.c) returns 4 numbers per counter value. */
enum { PIECE = 1 << 16 };

static const double bias_sd = 0.02;

static uint64_t fnv1a(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
    return h;
}

static const uint64_t fnv_basis = 0xcbf29ce484222325ull;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Returns the bound of the uniform distribution on [-bound, bound] with standard deviation sd. */
static float bound_of(double sd)
{
    return (float)(sd * sqrt(3.0));
}

struct kvr_draw kvr_draw_of(const char *name, int n_dims, const int64_t *shape)
{
    const uint64_t h = fnv1a(fnv_basis, name);
    struct kvr_draw d = { .a = (uint32_t)h, .b = (uint32_t)(h >> 32) };
    double fan_in = 1;

    for (int i = 1; i < n_dims; i++)
        fan_in *= (double)shape[i];
    if (ends_with(name, "modulation"))
        d.bound = bound_of(1 / sqrt((double)shape[n_dims - 1]));
    else if (ends_with(name, ".bias"))
        d.bound = bound_of(bias_sd);
    else if (n_dims == 1)
        d.fill = 1;
    else
        d.bound = bound_of(1 / sqrt(fan_in));
    return d;
}

static void draw_piece(uint64_t seed, const struct kvr_draw *d, int64_t first, int64_t n, float *to)
{
    kvr_uniform(to, (size_t)n, seed, KVR_RNG_WEIGHTS, d->a, d->b, (uint64_t)first);
    for (int64_t i = 0; i < n; i++)
        to[i] = d->bound * (2.0f * to[i] - 1.0f);
}

static void draw(uint64_t seed, const struct kvr_draw *d, int64_t n, float *to)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += PIECE)
        draw_piece(seed, d, i, n - i < PIECE ? n - i : PIECE, to + i);
}

static void draw_cpu(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                     float *to)
{
    (void)dev;
    if (d->bound > 0) {
        draw(seed, d, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = d->fill;
}

static void draw_cuda(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                      float *to)
{
    kvr_draw_cuda(kvr_dev_stream(dev), seed, d, n, to);
}

typedef void draw_fn(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n,
                     float *to);
static draw_fn *const draws[KVR_N_BACKENDS] = { [KVR_CPU] = draw_cpu, [KVR_CUDA] = draw_cuda };

void kvr_draw_to(struct kvr_dev *dev, uint64_t seed, const struct kvr_draw *d, int64_t n, float *to)
{
    draws[kvr_dev_backend(dev)](dev, seed, d, n, to);
}

void kvr_draw_tensor(uint64_t seed, const char *name, int n_dims, const int64_t *shape, float *to)
{
    const struct kvr_draw d = kvr_draw_of(name, n_dims, shape);
    int64_t n = 1;

    for (int i = 0; i < n_dims; i++)
        n *= shape[i];
    draw_cpu(NULL, seed, &d, n, to);
}

static int count_words(const char *text)
{
    int n = 0;

    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        text += strcspn(text, " ");
        n++;
    }
    return n;
}

void kvr_draw_prompt(uint64_t seed, const char *text, int text_len, int text_dim, float *P)
{
    const uint64_t h = fnv1a(fnv1a(fnv_basis, "prompt "), text);
    const struct kvr_draw d = { .a = (uint32_t)h, .b = (uint32_t)(h >> 32), .bound = bound_of(1) };
    const int words = count_words(text) + 1, rows = words < text_len ? words : text_len;

    memset(P, 0, (size_t)text_len * (size_t)text_dim * sizeof *P);
    draw(seed, &d, (int64_t)rows * text_dim, P);
}
