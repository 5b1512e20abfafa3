/* block.c - implements block.h with one table of functions per backend (CPU and CUDA). */
#include "methods/block.h"

#include <string.h>

#include "methods/codecs/raw/raw_cuda.h"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/codecs/outliers/outliers_cuda.h"

enum {
    PART = 1 << 15, /* number of values per iteration of a parallel loop */
    /* number of values from which copying uses several threads: waking a thread takes longer than
     * copying fewer values */
    WORTH_A_TEAM = 1 << 17
};

struct kind {
    void (*copy)(struct kvr_dev *dev, float *to, const float *from, int64_t n);
    void (*widen)(struct kvr_dev *dev, float *to, const kvr_bf16 *from, int64_t n);
    void (*round)(struct kvr_dev *dev, float *x, int64_t n);
    /* encode and decode a chain of stages (kvr_grid_chain) in one kernel; if both are NULL, the
     * backend runs each stage separately */
    bool (*encode_chain)(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                         const struct kvr_values *x, const struct kvr_stage_data *const data[2]);
    bool (*decode_chain)(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                         const struct kvr_stage_data *const data[2], int64_t t0, int64_t n, int h0,
                         int nh, float *out);
};

/* ---- CPU --------------------------------------------------------------------------------- */

static int64_t part_of(int64_t n, int64_t i)
{
    return n - i < PART ? n - i : PART;
}

static void copy_cpu(struct kvr_dev *dev, float *to, const float *from, int64_t n)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i += PART)
        memcpy(to + i, from + i, (size_t)part_of(n, i) * sizeof *to);
}

static void widen_cpu(struct kvr_dev *dev, float *to, const kvr_bf16 *from, int64_t n)
{
    (void)dev;
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i += PART)
        kvr_to_f32(to + i, from + i, KVR_BF16, (size_t)part_of(n, i));
}

/* Uses one thread, because the callers are already threads that decode different tokens. */
static void round_cpu(struct kvr_dev *dev, float *x, int64_t n)
{
    (void)dev;
    for (int64_t i = 0; i < n; i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
}

/* ---- CUDA -------------------------------------------------------------------------------- */

static void copy_cuda(struct kvr_dev *dev, float *to, const float *from, int64_t n)
{
    kvr_dev_copy(dev, to, from, (size_t)n * sizeof *to);
}

static void widen_cuda(struct kvr_dev *dev, float *to, const kvr_bf16 *from, int64_t n)
{
    const struct kvr_block_shape all = { n, 1, 1 };

    kvr_raw_decode_cuda(kvr_dev_stream(dev), &all, KVR_BF16, from, 0, n, 0, 1, to);
}

static void round_cuda(struct kvr_dev *dev, float *x, int64_t n)
{
    kvr_round_bf16_cuda(kvr_dev_stream(dev), x, n);
}

static bool encode_chain_cuda(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                              const struct kvr_values *x,
                              const struct kvr_stage_data *const data[2])
{
    return kvr_chain_encode_cuda(kvr_dev_stream(dev), c, x, data);
}

static bool decode_chain_cuda(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                              const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                              int h0, int nh, float *out)
{
    return kvr_chain_decode_cuda(kvr_dev_stream(dev), c, data, t0, n, h0, nh, out);
}

/* ------------------------------------------------------------------------------------------ */

static const struct kind kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = { .copy = copy_cpu, .widen = widen_cpu, .round = round_cpu },
    [KVR_CUDA] = { .copy = copy_cuda,
                   .widen = widen_cuda,
                   .round = round_cuda,
                   .encode_chain = encode_chain_cuda,
                   .decode_chain = decode_chain_cuda },
};

static const struct kind *kind_of(const struct kvr_dev *dev)
{
    return &kinds[dev ? kvr_dev_backend(dev) : KVR_CPU];
}

void kvr_block_copy(struct kvr_dev *dev, float *to, const float *from, int64_t n)
{
    kind_of(dev)->copy(dev, to, from, n);
}

void kvr_block_widen(struct kvr_dev *dev, float *to, const kvr_bf16 *from, int64_t n)
{
    kind_of(dev)->widen(dev, to, from, n);
}

void kvr_block_round(struct kvr_dev *dev, float *x, int64_t n)
{
    kind_of(dev)->round(dev, x, n);
}

bool kvr_block_chains(const struct kvr_dev *dev)
{
    return kind_of(dev)->encode_chain != NULL;
}

bool kvr_block_encode_chain(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                            const struct kvr_values *x, const struct kvr_stage_data *const data[2])
{
    return kind_of(dev)->encode_chain(dev, c, x, data);
}

bool kvr_block_decode_chain(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                            const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                            int h0, int nh, float *out)
{
    return kind_of(dev)->decode_chain(dev, c, data, t0, n, h0, nh, out);
}

bool kvr_block_decode_chain_bf16(struct kvr_dev *dev, const struct kvr_grid_chain *c,
                                 const struct kvr_stage_data *const data[2], int64_t t0, int64_t n,
                                 int h0, int nh, kvr_bf16 *out)
{
    return kvr_chain_decode_bf16_cuda(kvr_dev_stream(dev), c, data, t0, n, h0, nh, out);
}

bool kvr_block_decodes_bf16(const struct kvr_grid_chain *c)
{
    return kvr_chain_decodes_bf16(c);
}

void kvr_block_put_entries_bf16(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                const struct kvr_stage_data *entries, int64_t t0, int64_t n, int h0,
                                int nh, kvr_bf16 *out)
{
    kvr_outliers_put_bf16_cuda(kvr_dev_stream(dev), shape, entries->codes.p, entries->meta.p,
                               entries->n_entries, t0, n, h0, nh, out);
}
