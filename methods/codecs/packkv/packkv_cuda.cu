/* packkv_cuda.cu - decoder of the codec `packkv` on a CUDA device. A warp decodes one head of one
 * token, 32 channels at a time. A prefix sum of the channels' code lengths gives the positions of
 * the codes. Built with -fmad=false. */
#include "methods/codecs/packkv/packkv.h"

enum { THREADS = 128, WARPS = THREADS / 32 };

/* packkv_slot() by a warp: each lane compares two elements of the permutation. */
static __device__ __forceinline__ int slot_of(const struct packkv &g,
                                              kvr_global<const uint8_t> params, int64_t t)
{
    const int64_t at = packkv_order_at(&g, t / PACKKV_BLOCK) + threadIdx.x % 32;
    const unsigned own = (unsigned)(t % PACKKV_BLOCK);
    const unsigned low = __ballot_sync(~0u, (unsigned)params[at] == own);
    const unsigned high = __ballot_sync(~0u, (unsigned)params[at + 32] == own);

    return low ? __ffs((int)low) - 1 : high ? 31 + __ffs((int)high) : PACKKV_BLOCK - 1;
}

/* Sum of n over the lanes up to this one. */
static __device__ __forceinline__ int sum_up_to(int n)
{
    const int lane = (int)threadIdx.x % 32;

#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const int below = __shfl_up_sync(~0u, n, by);

        n += lane >= by ? below : 0;
    }
    return n;
}

static __global__ void __launch_bounds__(THREADS)
    packkv_decode(struct packkv g, struct kvr_part p, kvr_global<const uint8_t> codes,
                  kvr_global<const uint8_t> params, kvr_global<float> out)
{
    const int64_t heads = p.width / g.head_dim;
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, t = p.t0 + i / heads;
    const int64_t h = p.first / g.head_dim + i % heads, left = t - g.blocks * PACKKV_BLOCK;
    const int lane = (int)threadIdx.x % 32;
    int before = 0; /* sum of the code lengths of the channels before c0 */

    if (i >= p.n * heads)
        return;
    if (left >= 0) {
        for (int64_t c = lane; c < g.head_dim; c += 32) {
            const unsigned raw = cells_get(codes, 2 * ((left * g.n_heads + h) * g.head_dim + c), 2);

            kvr_part_put(p.mode, out, i * g.head_dim + c, cells_load(CELLS_BF16, raw));
        }
        return;
    }
    const int slot = slot_of(g, params, t);
    const int64_t round = packkv_round_at(&g, params, t / PACKKV_BLOCK, h, slot);
    const float s = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(&g, t), 2));
    const float z = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(&g, t) + 2, 2));

    for (int64_t c0 = 0; c0 < g.head_dim; c0 += 32) {
        const int64_t c = c0 + lane;
        const int n = c < g.head_dim ? packkv_length(&g, codes, round, c) : 0;
        const int sum = sum_up_to(n);
        const int64_t bit = packkv_head_bits(&g) + (int64_t)(before + sum - n) * PACKKV_ROUND;

        before += __shfl_sync(~0u, sum, 31);
        if (c < g.head_dim)
            kvr_part_put(p.mode, out, i * g.head_dim + c,
                         packkv_value(packkv_code(&g, codes, round, c, slot, bit, n), s, z));
    }
}

void kvr_packkv_decode_cuda(struct kvr_stream *s, const struct packkv *g, const void *codes,
                            const void *params, const struct kvr_part *part, float *out)
{
    if (part->n && part->width)
        KVR_LAUNCH(packkv_decode, kvr_blocks(part->n * (part->width / g->head_dim), WARPS), THREADS,
                   0, s, *g, *part, (const uint8_t *)codes, (const uint8_t *)params, out);
}
