/* attend_parts.cu - see attend_split.h. */
#include "harness/cache/attend_part.cuh"
#include "harness/device/mma.cuh"

/* Merges the partial results of the split query blocks, in the order of their KV parts. If earlier
 * launches of the same attention call have stored a softmax state, the merge starts from this
 * state. Each thread merges four channels of one query row. */
template <int D>
static __global__ void __launch_bounds__(PART_QUERIES)
    attend_parts(struct kvr_attend_shape a, int n_whole, int n_cut, int n_parts,
                 kvr_global<const float> parts, const struct kvr_attend_io io)
{
    enum { LINE = D / 4, AT_ONCE = PART_QUERIES / LINE };
    const int piece = (int)blockIdx.x;
    const struct piece of = piece_of(a, n_whole + piece);
    const int c = (int)threadIdx.x % LINE * 4;
    const int i = (int)blockIdx.y * AT_ONCE + (int)threadIdx.x / LINE;
    const int64_t query = of.query + i, to = query * a.n_heads + of.h;
    const int64_t n_rows = (int64_t)n_cut * n_parts * PART_QUERIES;
    const bool there = query < a.n_query;
    const kvr_global<float> mx(io.state.mx), sum(io.state.sum), acc(io.state.acc);
    float top = -INFINITY, all = 0;
    float4 x = { 0, 0, 0, 0 };

    if (there && !io.begins) {
        top = mx[to];
        all = sum[to];
        x = kvr_as<float4>(acc + (to * D + c))[0];
    }
#pragma unroll 1
    for (int p = 0; p < n_parts && there; p++) {
        const int64_t from = ((int64_t)p * n_cut + piece) * PART_QUERIES + i;
        const float before = top, other = parts[from];
        const float4 y = kvr_as<const float4>(parts + (2 * n_rows + from * D + c))[0];

        top = fmaxf(before, other);
        const float zero = top == -INFINITY ? 0.0f : top;
        const float rescale = expf(before - zero), grow = expf(other - zero);

        all = all * rescale + parts[n_rows + from] * grow;
        x.x = x.x * rescale + y.x * grow;
        x.y = x.y * rescale + y.y * grow;
        x.z = x.z * rescale + y.z * grow;
        x.w = x.w * rescale + y.w * grow;
    }
    __syncthreads(); /* waits until all threads have read the softmax state */
    if (!there)
        return;
    if (io.out || io.out16) {
        const float inv = 1.0f / all;
        const kvr_global<float> out(io.out);
        const kvr_global<kvr_bf16> out16(io.out16);

        if (io.out)
            kvr_as<float4>(out + (to * D + c))[0] =
                float4{ x.x * inv, x.y * inv, x.z * inv, x.w * inv };
        else
            kvr_as<uint2>(out16 + (to * D + c))[0] =
                uint2{ kvr_bf16_pair(x.x * inv, x.y * inv), kvr_bf16_pair(x.z * inv, x.w * inv) };
        return;
    }
    if (!c) {
        mx[to] = top;
        sum[to] = all;
    }
    kvr_as<float4>(acc + (to * D + c))[0] = x;
}

template <int D>
static void add_parts(struct kvr_stream *s, const struct kvr_attend_shape *a,
                      const struct kvr_attend_split *split, const float *parts,
                      const struct kvr_attend_io *io)
{
    const dim3 blocks((unsigned)split->n_cut, D / 4);

    KVR_LAUNCH(attend_parts<D>, blocks, PART_QUERIES, 0, s, *a, (int)split->n_whole,
               (int)split->n_cut, split->parts, parts, *io);
}

void kvr_attend_parts_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                           const struct kvr_attend_split *split, const float *parts,
                           const struct kvr_attend_io *io)
{
    if (split->n_cut && a->head_dim == 64)
        add_parts<64>(s, a, split, parts, io);
    else if (split->n_cut)
        add_parts<128>(s, a, split, parts, io);
}

static int64_t blocks_of(const struct kvr_attend_shape *a)
{
    return (a->n_query + PART_QUERIES - 1) / PART_QUERIES * a->n_heads;
}

struct kvr_attend_split kvr_attend_split_for(const struct kvr_attend_shape *a, int64_t n_tiles,
                                             size_t n_floats)
{
    const bool cuts = a->head_dim == 64 || a->head_dim == 128;

    return kvr_attend_split_of(
        blocks_of(a), n_tiles,
        cuts ? (int64_t)(n_floats / ((size_t)PART_QUERIES * (size_t)(a->head_dim + 2))) : 0);
}

size_t kvr_attend_parts_floats(const struct kvr_attend_shape *a)
{
    if (a->head_dim != 64 && a->head_dim != 128)
        return 0;
    return (size_t)kvr_attend_split_slots(blocks_of(a)) * PART_QUERIES * (size_t)(a->head_dim + 2);
}
