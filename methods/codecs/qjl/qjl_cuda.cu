/* qjl_cuda.cu - decoder of the codec `qjl` on a CUDA device. A CTA keeps the random projection S in
 * shared memory. Each warp decodes 32 channels of one head of 8 tokens at a time, whose codes are
 * the bits of the same bytes. Built with -fmad=false. */
#include "methods/codecs/qjl/qjl.h"

/* MOST_BLOCKS: 2 CTAs per SM of an H100. More CTAs would only compute S more often. */
enum { THREADS = 512, WARPS = THREADS / 32, MOST_BLOCKS = 2 * 132, OFFSET = 32 };

/* Writes 4 S + OFFSET, numbers from 0 to 2 * OFFSET, to `projection`. Word [j][c] has the numbers
 * of rows 4 j to 4 j + 3 and column c, one per byte. */
static __device__ __forceinline__ void fill_projection(const struct qjl &g,
                                                       kvr_shared<unsigned> projection)
{
    for (int e = (int)threadIdx.x; e < (g.head_dim + 3) / 4 * g.head_dim; e += THREADS) {
        const int row = e / g.head_dim * 4, c = e % g.head_dim;
        unsigned word = 0;

        for (int i = 0; i < 4 && row + i < g.head_dim; i++)
            word |= (unsigned)(qjl_number(g.seed, row + i, c) + OFFSET) << (8 * i);
        projection[e] = word;
    }
}

/* The eight integer sums of qjl_value() of tokens 8 t8 to 8 t8 + 7, for column c of S. `row` is the
 * index of the head's codes. All lanes of the warp call this function with the same row. */
static __device__ __forceinline__ void sum_signs(const struct qjl &g,
                                                 kvr_shared<unsigned> projection,
                                                 kvr_global<const uint8_t> codes, int64_t row,
                                                 int c, int (&sum)[8])
{
    unsigned of_ones[8] = {}, of_all = 0;
    int ones[8] = {};

    for (int first = 0; first < g.head_dim; first += 128) {
        const int left = g.head_dim - first, mine = left - 4 * ((int)threadIdx.x % 32);
        /* each lane has the codes of 4 rows of S, one byte per row and one bit per token */
        const unsigned codes4 = cells_get(codes, row + g.head_dim - mine, mine < 4 ? mine : 4);

        for (int j = 0; j < 32 && 4 * j < left; j++) {
            const unsigned bits = __shfl_sync(~0u, codes4, j);
            const unsigned s = projection[(first / 4 + j) * g.head_dim + c];

            of_all = __dp4a(s, 0x01010101u, of_all);
#pragma unroll
            for (int r = 0; r < 8; r++)
                of_ones[r] = __dp4a(s, bits >> r & 0x01010101u, of_ones[r]);
        }
#pragma unroll
        for (int r = 0; r < 8; r++)
            ones[r] += __reduce_add_sync(~0u, __popc(codes4 >> r & 0x01010101u));
    }
#pragma unroll
    for (int r = 0; r < 8; r++)
        sum[r] = 2 * ((int)of_ones[r] - OFFSET * ones[r]) - ((int)of_all - OFFSET * g.head_dim);
}

static __global__ void __launch_bounds__(THREADS)
    qjl_decode(struct qjl g, struct kvr_part p, kvr_global<const uint8_t> codes,
               kvr_global<const kvr_f16> norm, kvr_global<float> out)
{
    KVR_SHARED_DYNAMIC(unsigned, projection);
    const unsigned heads = (unsigned)(p.width / g.head_dim),
                   strips = (unsigned)(g.head_dim + 31) / 32;
    const int64_t runs = (p.t0 + p.n + 7) / 8 - p.t0 / 8;

    fill_projection(g, projection);
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; i < runs * heads * strips;
         i += (int64_t)gridDim.x * WARPS) {
        const unsigned in = (unsigned)(i % (heads * strips));
        const int64_t t8 = p.t0 / 8 + i / (heads * strips);
        const int64_t head = p.first / g.head_dim + in / strips;
        const int c = (int)(in % strips * 32 + threadIdx.x % 32);
        int sum[8];

        sum_signs(g, projection, codes, (t8 * g.n_heads + head) * g.head_dim,
                  c < g.head_dim ? c : 0, sum);
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const int64_t t = 8 * t8 + r;

            if (t >= p.t0 && t < p.t0 + p.n && c < g.head_dim)
                kvr_part_put(
                    p.mode, out, (t - p.t0) * p.width + (int64_t)(in / strips) * g.head_dim + c,
                    qjl_value(&g, cells_load(CELLS_F16, norm[t * g.n_heads + head]), sum[r]));
        }
    }
}

void kvr_qjl_decode_cuda(struct kvr_stream *s, const struct qjl *g, const void *codes,
                         const void *norms, const struct kvr_part *part, float *out)
{
    const int64_t runs = (part->t0 + part->n + 7) / 8 - part->t0 / 8;
    const int64_t strips = part->width / g->head_dim * ((g->head_dim + 31) / 32);
    const unsigned blocks = kvr_blocks(runs * strips, WARPS);
    const size_t words = (size_t)((g->head_dim + 3) / 4 * g->head_dim);

    if (part->n && part->width)
        KVR_LAUNCH(qjl_decode, blocks < MOST_BLOCKS ? blocks : (unsigned)MOST_BLOCKS, THREADS,
                   words * sizeof(unsigned), s, *g, *part, (const uint8_t *)codes,
                   (const kvr_f16 *)norms, out);
}
