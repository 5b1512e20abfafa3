/* attend_bytes.cu - see attend_bytes.h.
 *
 * This kernel computes INT8 attention with the producer/consumer structure of attend_wgmma.cu. A
 * CTA computes attention for QUERIES queries of one head. One thread of the producer warpgroup
 * loads tiles by TMA. Each of the two consumer warpgroups computes ROWS query rows. A consumer
 * group issues the GEMM S = Q K^T of tile j together with the GEMM P V of tile j - 1. The two
 * consumer groups ping-pong, so that the softmax of one group overlaps with the GEMMs of the other
 * group. The last, partial wave of CTAs is split along KV (attend_split.h).
 *
 * The kernel reinterprets the bits of INT32 accumulators as floats, which needs no conversion
 * instruction. The bits of an integer x in [0, 2^23) are those of the denormal float x 2^-149.
 *
 * The accumulators of S are sums of signed INT8 products. An extra MMA, whose operand bytes are all
 * 255, adds KVR_BYTE_BIAS = 32 x 255^2 to the accumulators of S. This bias makes the accumulators
 * nonnegative. Each tile has an exponent E, such that 2^E exceeds the scale of every key in the
 * tile. Every token of K has two stored constants, A and C (byte_rows.h). For an accumulator x,
 * fmaf(A, x, C) subtracts the bias and multiplies by the key's scale divided by 2^(22 + E). The
 * number 22 is 149 - 127: A contains the factor 2^127, and the denormal contains the factor 2^-149.
 *
 * P consists of 8-bit codes: the code of the softmax weight of a score s is 255 e^(s - m), where m
 * is the row maximum within the tile. An FP16 addition of 1024 rounds the code to an integer.
 *
 * The signed INT8 codes of V are stored with an offset of 128, as unsigned bytes. The accumulators
 * of P V are therefore nonnegative. They sum 128 products of bytes, one per token of the tile, and
 * are at most 128 x 255^2 < 2^23. Their bits are therefore also those of denormal floats. Let M be
 * the running row maximum. One FMA per accumulator multiplies by e^(m - M), and removes the offset
 * 128 of the V codes by subtracting 128 times the sum of the query row's weight codes. A second FMA
 * multiplies by the scale of the V channel and accumulates in O. */
#include "harness/cache/attend_bytes.h"

#include "harness/cache/attend_part.cuh"
#include "harness/cache/byte_code.cuh"
#include "harness/device/hopper.cuh"

enum {
    D = KVR_BYTE_D,
    KEYS = KVR_BYTE_TILE,
    CONSUMERS = 2,
    THREADS = (1 + CONSUMERS) * KVR_WARPGROUP,
    ROWS = 64,
    QUERIES = PART_QUERIES,
    STAGES = 4,
    OCTET = 8 * 128, /* size in bytes of a swizzle atom, which has 8 rows of 128 bytes */
    TILE_BYTES = KEYS * 128,
    KEY_STEPS = KVR_BYTE_KEY_STEPS * 128,
    VALUE_STEPS = KVR_BYTE_VALUE_STEPS * 128,
    /* The constants AT_... are byte offsets in shared memory. */
    AT_ONES = 0, /* swizzle atom of 0xff bytes: operands of the MMA that adds KVR_BYTE_BIAS */
    AT_QUERIES = AT_ONES + OCTET,
    AT_KEYS = AT_QUERIES + QUERIES * 128,
    AT_VALUES = AT_KEYS + STAGES * TILE_BYTES,
    AT_KEY_STEPS = AT_VALUES + STAGES * TILE_BYTES,
    AT_VALUE_STEPS = AT_KEY_STEPS + STAGES * KEY_STEPS,
    /* two floats per query: the query's quantization scale times 2^22, and the dot product of the
     * query with the mean key mu */
    AT_QUERY_STEPS = AT_VALUE_STEPS + STAGES * VALUE_STEPS,
    AT_BARRIERS = AT_QUERY_STEPS + QUERIES * 8,
    N_SHARED = AT_BARRIERS + 4 * STAGES * 8,
    OF_PRODUCER = 24, /* registers per producer thread after setmaxnreg */
    OF_CONSUMER = 240,
};
static_assert(kvr_registers_fit(THREADS, OF_PRODUCER, OF_CONSUMER), "the launch's registers");
static_assert(QUERIES == CONSUMERS * ROWS && D == 128 && KEYS == 128,
              "tiles of 128 rows of 128 bytes");

/* Indices of named barriers. A consumer group waits on its PING_PONG barrier for its turn to issue
 * GEMMs. The group's GROUP_SYNC barrier synchronizes the threads of the group. */
enum { PING_PONG = 1, GROUP_SYNC = PING_PONG + CONSUMERS };

/* Kernel parameter with the tensor maps and the spans (runs of cached tokens) of a launch. The
 * tensor maps describe every 128-byte row of codes or scales as 64 BF16 elements, because struct
 * kvr_tensor_map has no other element type. */
struct byte_list {
    struct kvr_tensor_map keys, values, key_steps, value_steps;
    int n_tiles[KVR_ATTEND_BYTES_SPANS];
    float log_m[KVR_ATTEND_BYTES_SPANS];
    float scale;
    struct cut cut;
};

/* Arrays of STAGES mbarriers, with one mbarrier per pipeline stage. */
struct byte_barriers {
    kvr_shared<uint64_t> full_k, full_v, empty_k, empty_v;
};

static __device__ __forceinline__ struct byte_barriers barriers_at(kvr_shared<uint8_t> shared)
{
    const kvr_shared<uint64_t> b = kvr_as<uint64_t>(shared + AT_BARRIERS);

    return { b, b + STAGES, b + 2 * STAGES, b + 3 * STAGES };
}

/* Main loop of the producer thread. The thread refills stage s once the consumers have released the
 * stage's previous tile. */
static __device__ __forceinline__ void produce(const struct byte_list &l, const struct part &p,
                                               kvr_shared<uint8_t> shared)
{
    const struct byte_barriers b = barriers_at(shared);

#pragma unroll 1
    for (int i = 0; i < p.n; i++) {
        const int stage = i % STAGES, tile = p.first + i;
        const unsigned freed = (unsigned)(i / STAGES + 1) % 2;
        const kvr_shared<uint8_t> at = shared + stage * TILE_BYTES;

        kvr_barrier_wait(b.empty_k + stage, freed);
        kvr_barrier_arrive_expect_tx(b.full_k + stage, TILE_BYTES + KEY_STEPS);
        kvr_tma_load(kvr_as<kvr_bf16>(at + AT_KEYS), l.keys, 0, p.h, tile * KEYS, b.full_k + stage);
        kvr_tma_load(kvr_as<kvr_bf16>(shared + (AT_KEY_STEPS + stage * KEY_STEPS)), l.key_steps, 0,
                     p.h, tile * KVR_BYTE_KEY_STEPS, b.full_k + stage);
        kvr_barrier_wait(b.empty_v + stage, freed);
        kvr_barrier_arrive_expect_tx(b.full_v + stage, TILE_BYTES + VALUE_STEPS);
        kvr_tma_load(kvr_as<kvr_bf16>(at + AT_VALUES), l.values, 0, p.h, tile * D,
                     b.full_v + stage);
        kvr_tma_load(kvr_as<kvr_bf16>(shared + (AT_VALUE_STEPS + stage * VALUE_STEPS)),
                     l.value_steps, 0, p.h, tile * KVR_BYTE_VALUE_STEPS, b.full_v + stage);
    }
}

/* ---- consumer groups ---------------------------------------------------------------------- */

/* Quantizes the Q tile of a consumer group to INT8, with two threads per row. The caller must then
 * synchronize the consumer group, so that all its threads see the INT8 Q tile. */
static __device__ __forceinline__ void code_queries(const struct kvr_attend_shape &a, float scale,
                                                    int query, int h, kvr_global<const float> q,
                                                    kvr_global<const float> mu,
                                                    kvr_shared<uint8_t> to, kvr_shared<float> steps)
{
    const int self = (int)threadIdx.x % KVR_WARPGROUP, r = self / 2, c = self % 2 * (D / 2);
    const bool there = query + r < a.n_query;
    const kvr_global<const float> from =
        q + ((there ? (query + r) * (int64_t)a.n_heads + h : 0) * D + c);
    unsigned most = 0;
    float mean = 0;

#pragma unroll 4
    for (int i = 0; i < D / 2; i += 4) {
        const float4 m = kvr_as<const float4>(mu + (h * D + c + i))[0];
        float4 x = { 0, 0, 0, 0 };

        if (there)
            x = kvr_as<const float4>(from + i)[0];
        x = { x.x * scale, x.y * scale, x.z * scale, x.w * scale };
        most = larger_of(most, larger_of(larger_of(size_of(x.x), size_of(x.y)),
                                         larger_of(size_of(x.z), size_of(x.w))));
        mean += x.x * m.x + x.y * m.y + x.z * m.z + x.w * m.w;
    }
    most = larger_of(most, __shfl_xor_sync(~0u, most, 1));
    mean += __shfl_xor_sync(~0u, mean, 1);
    const float by = inverse_of(most);

#pragma unroll 2
    for (int i = 0; i < D / 2; i += 16) {
        unsigned four[4];

#pragma unroll
        for (int j = 0; j < 4; j++) {
            float4 x = { 0, 0, 0, 0 };

            if (there)
                x = kvr_as<const float4>(from + (i + 4 * j))[0];
            four[j] = four_codes(code_of(x.x * scale, by), code_of(x.y * scale, by),
                                 code_of(x.z * scale, by), code_of(x.w * scale, by));
        }
        kvr_as<uint4>(to + (r * 128 + ((c + i) / 16 ^ r % 8) * 16))[0] =
            uint4{ four[0], four[1], four[2], four[3] };
    }
    if (!c)
        kvr_as<float2>(steps + 2 * r)[0] = float2{ step_of(most) * 0x1p22f, mean };
    kvr_fence_async();
}

/* Online-softmax state of a thread's two query rows, which are rows lane / 4 and lane / 4 + 8 of
 * its warp. `top` is the running row maximum M, `sum` is the softmax denominator l, and `out` is
 * the thread's columns of the O accumulator. */
struct byte_state {
    float top[2], sum[2];
    float out[D / 2];
};

/* Parameters that dequantize the P V accumulators of a tile, for each of the thread's two rows. The
 * dequantized value of an accumulator x in row r is x * by[r] + less[r]. */
struct byte_weight_scale {
    float by[2], less[2];
};

typedef struct kvr_registers<unsigned, KEYS / 8> byte_weights;

static __device__ __forceinline__ float whole(int x)
{
    return __uint_as_float((unsigned)x);
}

static __device__ __forceinline__ int bits(float x)
{
    return (int)__float_as_uint(x);
}

static __device__ __forceinline__ void issue_scores(kvr_sums_s32 &s, kvr_matrix_desc ones,
                                                    kvr_matrix_desc q, kvr_matrix_desc keys)
{
    kvr_wgmma_u8(s, ones, ones, false);
#pragma unroll
    for (int d = 0; d < D; d += 32)
        kvr_wgmma_s8(s, kvr_matrix_desc_advance(q, d), kvr_matrix_desc_advance(keys, d), true);
    kvr_wgmma_commit();
}

static __device__ __forceinline__ void issue_values(kvr_sums_s32 &o, byte_weights &weights,
                                                    kvr_matrix_desc values)
{
#pragma unroll
    for (int k = 0; k < KEYS; k += 32)
        kvr_wgmma_u8(o, weights, k / 8, kvr_matrix_desc_advance(values, k), k > 0);
    kvr_wgmma_commit();
}

/* A consumer warp calls this function after it has read a pipeline stage. One lane arrives on
 * `empty`, the mbarrier on which the producer waits before it refills the stage. */
static __device__ __forceinline__ void release(int lane, kvr_shared<uint64_t> empty)
{
    __syncwarp();
    if (!lane)
        kvr_barrier_arrive(empty);
}

/* Softmax parameters of a query row for one tile. The weight code of a key is 2^(x * factor +
 * shift). Here, x = (score - q . mu) / (s_q 2^(22 + E)), where s_q is the query's quantization
 * scale and E is the tile's exponent (see the top of this file). The term q . mu occurs because the
 * mean key mu was subtracted from all keys before quantization. */
struct byte_row {
    float factor, shift;
    /* e^(m - M), where m is the row maximum within the tile and M is the running row maximum */
    float weight_scale;
    float rescale; /* e^(M_old - M), the factor that rescales l and O */
};

/* Converts the accumulators of S in place to the numbers x that the comment on struct byte_row
 * defines. The function also updates the running row maximum. The function sets *odd to NaN if a
 * key of the tile contains a NaN or an infinity, and to 0 otherwise. */
static __device__ __forceinline__ void scale_scores(kvr_sums_s32 &s, kvr_shared<const float> steps,
                                                    int lane, float log_m,
                                                    kvr_shared<const float> of_queries,
                                                    struct byte_state &state, struct byte_row *row,
                                                    float *odd, kvr_shared<uint64_t> empty)
{
    const float log2e = 1.44269504f, log2_255 = 7.99435344f;
    const float2 of_tile = kvr_as<const float2>(steps + 2 * KEYS)[0];
    float best[2] = { -INFINITY, -INFINITY };

    *odd = of_tile.y;
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++) {
        const float4 by = kvr_as<const float4>(steps + (16 * i + lane % 4 * 4))[0];

#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float x = fmaf(whole(s[4 * i + 2 * r]), by.x, by.y);
            const float y = fmaf(whole(s[4 * i + 2 * r + 1]), by.z, by.w);

            s[4 * i + 2 * r] = bits(x);
            s[4 * i + 2 * r + 1] = bits(y);
            best[r] = fmaxf(best[r], fmaxf(x, y));
        }
    }
    release(lane, empty);
#pragma unroll
    for (int b = 1; b < 4; b *= 2)
#pragma unroll
        for (int r = 0; r < 2; r++)
            best[r] = fmaxf(best[r], __shfl_xor_sync(~0u, best[r], b));
#pragma unroll
    for (int r = 0; r < 2; r++) {
        /* `unit` is the divisor s_q 2^(22 + E) in the definition of x at struct byte_row. An
         * all-zero query has the quantization scale s_q = 0. The lower bound 1e-37 of `unit` then
         * keeps masked scores at -infinity, because 0 times -infinity would be NaN. */
        const float2 mine = kvr_as<const float2>(of_queries + 16 * r)[0]; /* s_q * 2^22, q . mu */
        const float unit = fmaxf(mine.x * of_tile.x, 1e-37f), factor = unit * log2e;
        const float top = fmaf(best[r], unit, mine.y + log_m), before = state.top[r];
        const float now = fmaxf(before, top), zero = now == -INFINITY ? 0.0f : now;

        state.top[r] = now;
        row[r].factor = factor;
        /* The weight code of a key is 2^(x * factor + shift), and `best` is the row's largest x
         * within the tile. `shift` is lowered by 2^-22 |best * factor|, which exceeds the rounding
         * error of the FMA x * factor + shift. Therefore no weight code exceeds 255, even for large
         * scores. */
        row[r].shift = fmaf(-best[r], factor, log2_255) - fabsf(best[r] * factor) * 0x1p-22f;
        row[r].rescale = kvr_exp2((before - zero) * log2e);
        row[r].weight_scale = kvr_exp2((top - zero) * log2e);
    }
}

/* Rounds two softmax weights in [0, 255] to integer codes, and returns the codes in bytes 0 and 2
 * of a word. The conversion of a weight to FP16 has an error of at most 1/16. Adding 1024 in FP16
 * rounds the weight to an integer, because FP16 numbers in [1024, 2048) have a spacing of 1. */
static __device__ __forceinline__ unsigned codes_of_two(float low, float high)
{
#ifdef KVR_EMULATED
    const float x = kvr_f16_to_f32(kvr_f32_to_f16(low)), y = kvr_f16_to_f32(kvr_f32_to_f16(high));

    return kvr_f32_to_f16(x + 1024) | (unsigned)kvr_f32_to_f16(y + 1024) << 16;
#else
    unsigned r;

    asm("{\n.reg .b32 p;\ncvt.rn.f16x2.f32 p, %2, %1;\nadd.rn.f16x2 %0, p, %3;\n}"
        : "=r"(r)
        : "f"(low), "f"(high), "r"(0x64006400u));
    return r;
#endif
}

/* Dequantizes the thread's P V accumulators of the 8-column block i, which are columns 2 (lane % 4)
 * and 2 (lane % 4) + 1 of the block. Adds the results to O. */
static __device__ __forceinline__ void accumulate_values(kvr_sums_s32 &o,
                                                         kvr_shared<const float> steps, int lane,
                                                         const struct byte_weight_scale &of, int i,
                                                         struct byte_state &state)
{
    const float2 by = kvr_as<const float2>(steps + (8 * i + lane % 4 * 2))[0];

#pragma unroll
    for (int r = 0; r < 2; r++) {
        float *out = state.out + (4 * i + 2 * r);

        out[0] = fmaf(fmaf(whole(o[4 * i + 2 * r]), of.by[r], of.less[r]), by.x, out[0]);
        out[1] = fmaf(fmaf(whole(o[4 * i + 2 * r + 1]), of.by[r], of.less[r]), by.y, out[1]);
    }
}

/* Converts the scores S to P. P consists of 8-bit weight codes, in the permuted token order of V
 * (byte_rows.h). The function also sums the weight codes of each row. If ADDS is true, the function
 * adds the previous tile's P V to O. The FMAs for P V fill issue slots while the MUFU computes
 * exp2. */
template <bool ADDS>
static __device__ __forceinline__ void
quantize_weights(kvr_sums_s32 &s, const struct byte_row *row, byte_weights &out, unsigned *sum,
                 kvr_sums_s32 &o, kvr_shared<const float> steps, int lane,
                 const struct byte_weight_scale &of, struct byte_state &state)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] = 0;
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++) {
            float e[4];

#pragma unroll
            for (int j = 0; j < 4; j++)
                e[j] = kvr_exp2(
                    fmaf(whole(s[8 * i + j / 2 * 4 + 2 * r + j % 2]), row[r].factor, row[r].shift));
            const unsigned four =
                __byte_perm(codes_of_two(e[0], e[1]), codes_of_two(e[2], e[3]), 0x6420);

            out[2 * i + r] = four;
            sum[r] = __dp4a(four, 0x01010101u, sum[r]);
            if (ADDS)
                accumulate_values(o, steps, lane, of, KEYS / 16 * r + i, state);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    }
}

static __device__ __forceinline__ void count_weights(const unsigned *sum,
                                                     const struct byte_row *row, float odd,
                                                     struct byte_state &state,
                                                     struct byte_weight_scale &of)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float all = (float)sum[r] * row[r].weight_scale;

        state.sum[r] = fmaf(state.sum[r], row[r].rescale, all * (1.0f / 255.0f)) + odd;
        of.by[r] = row[r].weight_scale * 0x1p127f;
        of.less[r] = all * (-128 * 0x1p-22f);
    }
}

static __device__ __forceinline__ void rescale_output(struct byte_state &state,
                                                      const struct byte_row *row)
{
    if (!__any_sync(~0u, row[0].rescale != 1.0f || row[1].rescale != 1.0f))
        return; /* usually no row maximum has grown, and O needs no rescaling */
#pragma unroll
    for (int i = 0; i < D / 2; i++)
        state.out[i] *= row[i / 2 % 2].rescale;
}

/* Loads the softmax state that earlier launches of the call stored, or sets the initial state with
 * M = -infinity, l = 0 and O = 0. */
static __device__ __forceinline__ void load_state(const struct rows_at &r, bool begins, int first,
                                                  int lane, struct byte_state &state)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = first + 8 * j + lane / 4;
        const int64_t row = r.at + (int64_t)i * r.step;
        const bool there = i < r.n && !begins;
        const kvr_global<float> from = r.acc + ((there ? row * D : 0) + lane % 4 * 2);

        state.top[j] = there ? (float)r.mx[row] : -INFINITY;
        state.sum[j] = there ? (float)r.sum[row] : 0.0f;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            float2 x = { 0, 0 };

            if (there)
                x = kvr_as<float2>(from + 8 * n)[0];
            state.out[4 * n + 2 * j] = x.x;
            state.out[4 * n + 2 * j + 1] = x.y;
        }
    }
}

static __device__ __forceinline__ void store_state(const struct rows_at &r, int first, int lane,
                                                   kvr_shared<const float> of_queries,
                                                   const struct byte_state &state)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = first + 8 * j + lane / 4;
        const int64_t row = r.at + (int64_t)i * r.step;

        if (i >= r.n)
            continue;
        if (lane % 4 == 0) {
            r.mx[row] = state.top[j];
            /* The scale of a query with a NaN or an infinity is NaN. Adding scale - scale to the
             * softmax denominator makes the denominator and thus the query's output NaN. For a
             * finite scale, the difference is 0. */
            r.sum[row] = state.sum[j] + (of_queries[16 * j] - of_queries[16 * j]);
        }
        const kvr_global<float> to = r.acc + (row * D + lane % 4 * 2);

#pragma unroll
        for (int n = 0; n < D / 8; n++)
            kvr_as<float2>(to + 8 * n)[0] =
                float2{ state.out[4 * n + 2 * j], state.out[4 * n + 2 * j + 1] };
    }
}

/* Position of a tile: the index of the tile's span, and the number of tiles left in the span,
 * including this tile. */
struct byte_position {
    int span, left;
};

static __device__ __forceinline__ struct byte_position position_of(const struct byte_list &l,
                                                                   int tile)
{
    struct byte_position s = { 0, 0 };

#pragma unroll 1
    for (; tile >= l.n_tiles[s.span]; s.span++)
        tile -= l.n_tiles[s.span];
    s.left = l.n_tiles[s.span] - tile;
    return s;
}

/* Shared-memory operands of a consumer group: the 0xff bytes of the MMA that adds KVR_BYTE_BIAS,
 * the group's queries, and the codes and scales of K and V in pipeline stage 0. */
struct byte_operands {
    kvr_matrix_desc ones, queries, keys, values;
    kvr_shared<const float> key_steps, value_steps;
};

static __device__ __forceinline__ struct byte_operands operands_of(kvr_shared<uint8_t> shared,
                                                                   kvr_shared<uint8_t> queries)
{
    return { kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_ONES), 0, 0),
             kvr_matrix_desc_at(kvr_as<const kvr_bf16>(queries), 0, OCTET),
             kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_KEYS), 0, OCTET),
             kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_VALUES), 0, OCTET),
             kvr_as<float>(shared + AT_KEY_STEPS),
             kvr_as<float>(shared + AT_VALUE_STEPS) };
}

/* Drains the pipeline: computes P V of the last tile. No softmax overlaps with this GEMM. */
static __device__ __forceinline__ void
finish_values(const struct byte_operands &in, const struct byte_barriers &b, int last, int lane,
              byte_weights &weights, kvr_sums_s32 &o, const struct byte_weight_scale &of,
              struct byte_state &state)
{
    const int stage = last % STAGES;

    kvr_barrier_wait(b.full_v + stage, (unsigned)(last / STAGES) % 2);
    kvr_wgmma_fence(o, weights);
    issue_values(o, weights, kvr_matrix_desc_advance(in.values, stage * TILE_BYTES));
    kvr_wgmma_wait<0>(o, weights);
#pragma unroll
    for (int i = 0; i < D / 8; i++)
        accumulate_values(o, in.value_steps + stage * (VALUE_STEPS / 4), lane, of, i, state);
}

/* Main loop of a consumer warpgroup. The index `group` of the consumer group is 0 or 1. */
static __device__ __forceinline__ void
consume(const struct kvr_attend_shape &a, const struct byte_list &l, const struct part &p,
        int group, kvr_shared<uint8_t> shared, const struct kvr_attend_io &io,
        kvr_global<const float> mu, const struct rows_at &rows)
{
    const struct byte_barriers b = barriers_at(shared);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % KVR_WARPGROUP / 32;
    const int first = group * ROWS + 16 * warp;
    const kvr_shared<uint8_t> mine = shared + (AT_QUERIES + group * (ROWS * 128));
    const kvr_shared<float> of_queries =
        kvr_as<float>(shared + AT_QUERY_STEPS) + group * (2 * ROWS);
    const struct byte_operands in = operands_of(shared, mine);
    byte_weights weights;
    struct byte_state state;
    struct byte_weight_scale of = {};
    struct byte_row row[2];
    kvr_sums_s32 s, o;
    unsigned sum[2];
    float odd;
    struct byte_position at = position_of(l, p.first);

    code_queries(a, l.scale, p.query + group * ROWS, p.h, kvr_global<const float>(io.q), mu, mine,
                 of_queries);
    load_state(rows, p.slot >= 0 || io.begins, first, lane, state);
    kvr_named_sync(GROUP_SYNC + group, KVR_WARPGROUP);
    const kvr_shared<const float> mine_of = of_queries + 2 * (16 * warp + lane / 4);

    if (group == CONSUMERS - 1) /* this arrival lets consumer group 0 issue its GEMMs first */
        kvr_named_arrive(PING_PONG, CONSUMERS * KVR_WARPGROUP);
    kvr_barrier_wait(b.full_k, 0);
    kvr_wgmma_fence(s);
    issue_scores(s, in.ones, in.queries, in.keys);
    kvr_wgmma_wait<0>(s);
    scale_scores(s, in.key_steps, lane, l.log_m[at.span], mine_of, state, row, &odd, b.empty_k);
    rescale_output(state, row);
    quantize_weights<false>(s, row, weights, sum, o, in.value_steps, lane, of, state);
    count_weights(sum, row, odd, state, of);
#pragma unroll 1
    for (int tile = 1; tile < p.n; tile++) {
        const int stage = tile % STAGES, before = (tile - 1) % STAGES;

        if (!--at.left)
            at.left = l.n_tiles[++at.span];
        kvr_barrier_wait(b.full_k + stage, (unsigned)(tile / STAGES) % 2);
        kvr_barrier_wait(b.full_v + before, (unsigned)((tile - 1) / STAGES) % 2);
        kvr_named_sync(PING_PONG + group, CONSUMERS * KVR_WARPGROUP);
        kvr_wgmma_fence(s, o, weights);
        issue_scores(s, in.ones, in.queries, kvr_matrix_desc_advance(in.keys, stage * TILE_BYTES));
        issue_values(o, weights, kvr_matrix_desc_advance(in.values, before * TILE_BYTES));
        /* Group 0 does not wait on its PING_PONG barrier after its last tile. Group 1 therefore
         * does not arrive on that barrier after its own last tile. */
        if (tile + 1 < p.n || !group)
            kvr_named_arrive(PING_PONG + 1 - group, CONSUMERS * KVR_WARPGROUP);
        kvr_wgmma_wait<0>(s, o, weights);
        scale_scores(s, in.key_steps + stage * (KEY_STEPS / 4), lane, l.log_m[at.span], mine_of,
                     state, row, &odd, b.empty_k + stage);
        quantize_weights<true>(s, row, weights, sum, o, in.value_steps + before * (VALUE_STEPS / 4),
                               lane, of, state);
        release(lane, b.empty_v + before);
        rescale_output(state, row);
        count_weights(sum, row, odd, state, of);
    }
    finish_values(in, b, p.n - 1, lane, weights, o, of, state);
    store_state(rows, first, lane, mine_of, state);
}

/* Compiled for an architecture without WGMMA, the kernel has an empty body and a launch bound of 32
 * threads. kvr_hopper_has() detects the empty kernel by its launch bound. */
static __global__ void __launch_bounds__(KVR_HAS_WGMMA ? THREADS : 32, 1)
    attend_bytes(struct kvr_attend_shape a, const __grid_constant__ struct byte_list l,
                 const __grid_constant__ struct kvr_attend_io io, kvr_global<const float> mu,
                 kvr_global<float> parts)
{
#if KVR_HAS_WGMMA
    KVR_SHARED_TILES(uint8_t, shared);
    /* The shuffle tells the compiler that the warpgroup's index is uniform across the warp. */
    const int group = __shfl_sync(~0u, (int)threadIdx.x / KVR_WARPGROUP, 0);
    const struct part p = part_of(a, l.cut);

    if (!threadIdx.x) {
        const struct byte_barriers b = barriers_at(shared);

        for (int i = 0; i < STAGES; i++) {
            kvr_barrier_init(b.full_k + i, 1);
            kvr_barrier_init(b.full_v + i, 1);
            kvr_barrier_init(b.empty_k + i, CONSUMERS * KVR_WARPGROUP / 32);
            kvr_barrier_init(b.empty_v + i, CONSUMERS * KVR_WARPGROUP / 32);
        }
    }
    if (threadIdx.x < OCTET / 16)
        kvr_as<uint4>(shared + AT_ONES)[threadIdx.x] = uint4{ ~0u, ~0u, ~0u, ~0u };
    kvr_fence_async();
    __syncthreads();
    if (group == 0) {
        kvr_setmaxnreg_dec<OF_PRODUCER>();
        if (!threadIdx.x)
            produce(l, p, shared);
        return;
    }
    kvr_setmaxnreg_inc<OF_CONSUMER>();
    const struct rows_at rows = rows_of_part(a, l.cut, p.slot, p.h, p.query, io, parts);

    consume(a, l, p, group - 1, shared, io, mu, rows);
#endif
}

/* ---- host --------------------------------------------------------------------------------- */

bool kvr_attend_bytes_supported(const struct kvr_stream *s)
{
    return kvr_hopper_has<attend_bytes>(s, THREADS);
}

/* Creates the tensor map of an array of 128-byte rows. The array has the shape [n_tiles *
 * each][n_heads][128 bytes], where `each` is the number of rows per tile. One TMA box loads all
 * rows of one tile and head. */
static bool map_of(struct kvr_tensor_map *out, const void *rows, int64_t n_tiles, int n_heads,
                   int each, enum kvr_swizzle swizzle)
{
    return kvr_tensor_map_of(out, rows, n_tiles * each, n_heads, KVR_TILE_COLUMNS, each, swizzle);
}

static bool map_rows(struct byte_list *l, const struct kvr_byte_rows *rows, int heads)
{
    const int64_t n = rows->n_tiles;

    return map_of(&l->keys, rows->keys, n, heads, KEYS, KVR_SWIZZLE_128) &&
           map_of(&l->values, rows->values, n, heads, D, KVR_SWIZZLE_128) &&
           map_of(&l->key_steps, rows->key_steps, n, heads, KVR_BYTE_KEY_STEPS, KVR_SWIZZLE_NONE) &&
           map_of(&l->value_steps, rows->value_steps, n, heads, KVR_BYTE_VALUE_STEPS,
                  KVR_SWIZZLE_NONE);
}

bool kvr_attend_bytes_maps(const struct kvr_byte_rows *rows, int n_heads)
{
    struct byte_list l = {};

    return map_rows(&l, rows, n_heads);
}

void kvr_attend_bytes_cuda(struct kvr_stream *s, const struct kvr_attend_shape *a,
                           const struct kvr_attend_io *io, const struct kvr_byte_span *span,
                           int n_spans, const struct kvr_byte_rows *rows, float *parts,
                           size_t n_floats)
{
    const int heads = a->n_heads;
    struct byte_list l = {};
    struct kvr_attend_split split;
    int n_tiles = 0;

    if (!a->n_query || !heads || !n_spans)
        return;
    for (int i = 0; i < n_spans; i++) {
        l.n_tiles[i] = (int)((span[i].n + KEYS - 1) / KEYS);
        l.log_m[i] = span[i].log_m;
        n_tiles += l.n_tiles[i];
    }
    l.scale = 1.0f / sqrtf((float)D);
    /* creating the tensor maps cannot fail, since the caller has checked kvr_attend_bytes_maps() */
    if (!map_rows(&l, rows, heads))
        return;
    split = kvr_attend_split_for(a, n_tiles, n_floats);
    l.cut = cut_of(&split, n_tiles);
    KVR_LAUNCH(attend_bytes, (unsigned)(split.n_whole + split.n_cut * split.parts), THREADS,
               N_SHARED, s, *a, l, *io, rows->mu, parts);
    kvr_attend_parts_cuda(s, a, &split, parts, io);
}
