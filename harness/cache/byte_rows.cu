/* byte_rows.cu - see byte_rows.h. The codes and scales are bit-identical to those of the CPU code
 * in attend_dot.c. */
#include "harness/cache/byte_rows.h"

#include "harness/cache/byte_code.cuh"

enum { TILE = KVR_BYTE_TILE, D = KVR_BYTE_D, LINE = 32 /* floats per row of the scale arrays */ };
static_assert(TILE == 128 && D == 128, "one thread per token, or per channel, of a tile");

/* Computes mu, the mean of the first n keys of every head, like the CPU code in attend_int8.c. A
 * CTA processes one head, and a thread one channel. */
static __global__ void byte_mean(int n_heads, int n, kvr_global<const float> rows,
                                 kvr_global<float> mu)
{
    const int at = (int)(blockIdx.x * D + threadIdx.x);
    float sum = 0;

    for (int t = 0; t < n; t++)
        sum += rows[(int64_t)t * n_heads * D + at] / (float)n;
    mu[at] = sum;
}

/* A warp quantizes one token of a head, with four channels per lane. Returns the token's largest
 * |x| as a bit pattern, from which step_of() computes the token's scale. */
static __device__ __forceinline__ unsigned quantize_token(float4 x, kvr_global<uint8_t> codes)
{
    unsigned most =
        larger_of(larger_of(size_of(x.x), size_of(x.y)), larger_of(size_of(x.z), size_of(x.w)));

    for (int b = 1; b < 32; b *= 2)
        most = larger_of(most, __shfl_xor_sync(~0u, most, b));
    const float by = inverse_of(most);

    kvr_as<unsigned>(codes)[0] =
        four_codes(code_of(x.x, by), code_of(x.y, by), code_of(x.z, by), code_of(x.w, by));
    return most;
}

/* Quantizes a tile of K to INT8. A CTA processes one tile of one head. A warp quantizes 32 tokens,
 * and a lane quantizes four channels of each token. */
static __global__ void __launch_bounds__(TILE)
    byte_keys(int n_heads, int64_t n, kvr_global<const float> rows, kvr_global<const float> mu,
              kvr_global<uint8_t> codes, kvr_global<float> steps)
{
    KVR_SHARED(float, step, TILE);
    KVR_SHARED(float, most_of, 4);
    KVR_SHARED(int, odd_of, 4);
    const int self = (int)threadIdx.x, lane = self % 32, warp = self / 32, h = (int)blockIdx.y;
    const int64_t tile = blockIdx.x;
    const float4 m = kvr_as<const float4>(mu + h * D + 4 * lane)[0];

#pragma unroll 4
    for (int i = 0; i < 32; i++) {
        const int t = 32 * warp + i;
        const int64_t row = (tile * TILE + t) * n_heads + h;
        float4 x = m;

        if (tile * TILE + t < n)
            x = kvr_as<const float4>(rows + (row * D + 4 * lane))[0];
        x = { x.x - m.x, x.y - m.y, x.z - m.z, x.w - m.w };
        const unsigned most = quantize_token(x, codes + (row * D + 4 * lane));

        if (!lane)
            step[t] = step_of(most);
    }
    __syncthreads();
    /* From here on, each thread processes one token. */
    const bool there = tile * TILE + self < n;
    const float a = step[self];
    const bool is_number = a < INFINITY;
    float most = is_number ? a : 0.0f;

    for (int b = 1; b < 32; b *= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, b));
    const int odd = __any_sync(~0u, !is_number);

    if (!lane) {
        most_of[warp] = most;
        odd_of[warp] = odd;
    }
    __syncthreads();
    most = fmaxf(fmaxf(most_of[0], most_of[1]), fmaxf(most_of[2], most_of[3]));
    /* e is the exponent E of byte_rows.h: the tile's largest key scale, `most`, is below 2^e. The
     * kernel multiplies the key scales by `down` = 2^-e, so that they stay finite when it
     * multiplies them by 2^127. It also stores `up` = 2^e, and the attention kernel multiplies the
     * scores by `up`. */
    int e = (int)(__float_as_uint(most) >> 23) - 126;

    e = e < -120 ? -120 : e;
    const float up = __uint_as_float((unsigned)(127 + e) << 23);
    const float down = __uint_as_float((unsigned)(127 - e) << 23);
    const float part = is_number ? a * down : 0.0f;
    const int64_t first = tile * KVR_BYTE_KEY_STEPS * n_heads + h;
    const kvr_global<float> to = steps + first * LINE;

    kvr_as<float2>(to + ((int64_t)(self / 16) * n_heads * LINE + self % 16 * 2))[0] =
        float2{ part * __uint_as_float(254u << 23),
                there ? -(float)KVR_BYTE_BIAS * (part * 0x1p-22f) : -INFINITY };
    if (self < LINE)
        to[(int64_t)(KVR_BYTE_KEY_STEPS - 1) * n_heads * LINE + self] =
            self == 0                                       ? up
            : odd_of[0] | odd_of[1] | odd_of[2] | odd_of[3] ? NAN
                                                            : 0.0f;
}

/* Quantizes a tile of V to INT8. A CTA processes one tile of one head, and a thread one channel. */
static __global__ void __launch_bounds__(D)
    byte_values(int n_heads, int64_t n, kvr_global<const float> rows, kvr_global<uint8_t> codes,
                kvr_global<float> steps)
{
    const int c = (int)threadIdx.x, h = (int)blockIdx.y;
    const int64_t tile = blockIdx.x, line = (int64_t)n_heads * D;
    const kvr_global<const float> from = rows + (tile * TILE * line + h * D + c);
    const int here = n - tile * TILE < TILE ? (int)(n - tile * TILE) : (int)TILE;
    unsigned most = 0;

#pragma unroll 8
    for (int t = 0; t < here; t++)
        most = larger_of(most, size_of(from[t * line]));
    const float by = inverse_of(most);
    const kvr_global<uint8_t> to = codes + ((tile * D + c) * n_heads + h) * TILE;

    for (int t0 = 0; t0 < TILE; t0 += 16) {
        unsigned four[4];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned code[4];

#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int t = t0 + j / 2 * 8 + 2 * i + j % 2;

                code[j] = code_of(t < here ? (float)from[t * line] : 0.0f, by);
            }
            /* V is stored as unsigned bytes code + 128, so that the sums of P V are nonnegative.
             * The XOR adds 128 by flipping the top bit of every byte. */
            four[i] = four_codes(code[0], code[1], code[2], code[3]) ^ 0x80808080u;
        }
        kvr_as<uint4>(to + t0)[0] = uint4{ four[0], four[1], four[2], four[3] };
    }
    steps[((tile * KVR_BYTE_VALUE_STEPS + c / LINE) * n_heads + h) * LINE + c % LINE] =
        step_of(most) * (0x1p22f / 255.0f);
}

void kvr_byte_mean_cuda(struct kvr_stream *s, int n_heads, const float *rows, int64_t n, float *mu)
{
    const int first = n < KVR_BYTE_MEAN ? (int)n : (int)KVR_BYTE_MEAN;

    KVR_LAUNCH(byte_mean, (unsigned)n_heads, D, 0, s, n_heads, first, rows, mu);
}

void kvr_byte_rows_cuda(struct kvr_stream *s, int n_heads, const float *k, const float *v,
                        int64_t n, int64_t tile, const struct kvr_byte_rows *to)
{
    const dim3 blocks(kvr_blocks(n, TILE), (unsigned)n_heads);
    const int64_t bytes = tile * TILE * n_heads * D;

    if (n <= 0)
        return;
    KVR_LAUNCH(byte_keys, blocks, TILE, 0, s, n_heads, n, k, to->mu, to->keys + bytes,
               to->key_steps + tile * KVR_BYTE_KEY_STEPS * n_heads * LINE);
    KVR_LAUNCH(byte_values, blocks, D, 0, s, n_heads, n, v, to->values + bytes,
               to->value_steps + tile * KVR_BYTE_VALUE_STEPS * n_heads * LINE);
}

static size_t tile_bytes(int n_heads, int rows)
{
    return (size_t)rows * (size_t)n_heads * 128;
}

size_t kvr_byte_rows_size(int n_heads, int64_t n_tiles)
{
    return (size_t)n_tiles *
               tile_bytes(n_heads, TILE + D + KVR_BYTE_KEY_STEPS + KVR_BYTE_VALUE_STEPS) +
           tile_bytes(n_heads, D * (int)sizeof(float) / 128);
}

struct kvr_byte_rows kvr_byte_rows_at(void *scratch, int n_heads, int64_t n_tiles)
{
    uint8_t *base = (uint8_t *)scratch;
    struct kvr_byte_rows at = {};

    at.n_tiles = n_tiles;
    at.keys = base;
    base += (size_t)n_tiles * tile_bytes(n_heads, TILE);
    at.values = base;
    base += (size_t)n_tiles * tile_bytes(n_heads, D);
    at.key_steps = (float *)base;
    base += (size_t)n_tiles * tile_bytes(n_heads, KVR_BYTE_KEY_STEPS);
    at.value_steps = (float *)base;
    base += (size_t)n_tiles * tile_bytes(n_heads, KVR_BYTE_VALUE_STEPS);
    at.mu = (float *)base;
    return at;
}
