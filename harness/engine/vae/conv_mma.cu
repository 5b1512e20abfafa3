/* conv_mma.cu - convolution as implicit GEMM on tensor cores. The GEMM's M dimension is the output
 * pixels, and its N dimension is the output channels. The K dimension runs over kernel rows,
 * frames, kernel columns and input channels, with input channels innermost. */
#include "harness/engine/vae/conv_mma.h"

#include "harness/device/mma.cuh"

/* A CTA computes a tile of PIXELS pixels by COLUMNS output channels. Each of the four warps
 * computes half of the tile's pixels for half of the tile's channels. */
enum { PIXELS = 128, DEPTH = KVR_CONV_MMA_DEPTH, STAGES = 3, THREADS = 128 };
/* The kernel's template parameter COLUMNS is 32 (ANY), 96 or 128. It is ANY for a convolution with
 * at most 32 output channels or with an odd number of output channels. */
enum { ANY = 32 };
enum { CHUNK = 8 /* elements per cp.async */, CHUNKS = DEPTH / CHUNK };
/* A row of a stage has CHUNKS chunks of 16 bytes. A thread copies the chunk threadIdx.x % CHUNKS of
 * the rows threadIdx.x / CHUNKS + i * ROWS, for i = 0, 1, 2, ... */
enum { ROWS = THREADS / CHUNKS, PIXEL_ROWS = PIXELS / ROWS };

/* Returns the offset, in elements, of a 16-byte chunk in a tile with rows of 64 bytes. The XOR
 * swizzle spreads the 8 rows that an ldmatrix reads over all shared-memory banks. The swizzle
 * depends on row % 8 only. The same chunk 8 rows below is thus at the offset plus 8 * DEPTH. */
static __device__ __forceinline__ int chunk_at(int row, int chunk)
{
    return row * DEPTH + (chunk ^ row / 2 % CHUNKS) * CHUNK;
}

/* The input frames of a convolution, one per temporal tap of the filter and at most three. At the
 * start of a clip, the oldest `first` frames do not exist, and the taps for them are skipped.
 * `stride` is the number of elements between the starts of adjacent pixels. */
struct frames {
    kvr_global<const kvr_bf16> f0, f1, f2;
    int first, stride;
};

static __device__ __forceinline__ kvr_global<const kvr_bf16> frame_of(const struct frames &f, int i)
{
    return i == 0 ? f.f0 : i == 1 ? f.f1 : f.f2;
}

/* Position of the next K step: its kernel tap (dy, dx), its frame and its first input channel. */
struct k_position {
    int dy, dx, frame, channel;
    kvr_global<const kvr_bf16> pixels; /* address of channel `channel` of pixel (0, 0) */
    kvr_global<const kvr_bf16> weights;
    /* This thread copies one 16-byte chunk of each of PIXEL_ROWS input pixels. The chunk of its
     * input pixel i starts offset[i] elements after `pixels`. */
    int offset[PIXEL_ROWS];
    /* bit i is set if input pixel i, which is the thread's output pixel i shifted by the kernel
     * tap, is inside the frame */
    unsigned there;
};

/* Computes the image row and column of every output pixel of this thread. For a pixel past the last
 * output pixel, the row is -c.kernel, where c.kernel is the kernel's height. The input pixels of
 * every kernel tap are then above the frame, and fetch() copies zeros for them. */
static __device__ __forceinline__ void begin_rows(const struct kvr_conv_shape &c, int p0,
                                                  int (&y)[PIXEL_ROWS], int (&x)[PIXEL_ROWS])
{
#pragma unroll
    for (int i = 0; i < PIXEL_ROWS; i++) {
        const int p = p0 + (int)threadIdx.x / CHUNKS + i * ROWS;

        y[i] = p < c.height * c.width ? p / c.width : -c.kernel;
        x[i] = p % c.width;
    }
}

/* For the kernel tap (at.dy, at.dx), computes the offsets of this thread's input pixels, at.offset,
 * and the bits at.there, which tell whether these pixels are inside the frame. */
static __device__ __forceinline__ void find_pixels(const struct kvr_conv_shape &c, int stride,
                                                   const int (&y)[PIXEL_ROWS],
                                                   const int (&x)[PIXEL_ROWS],
                                                   struct k_position &at)
{
    const int half = c.up - 1, width = c.width >> half;

    at.there = 0;
#pragma unroll
    for (int i = 0; i < PIXEL_ROWS; i++) {
        const int v = y[i] + at.dy, h = x[i] + at.dx;
        const bool there = v >= 0 && v < c.height && h >= 0 && h < c.width;

        at.there |= (unsigned)there << i;
        at.offset[i] = (there ? ((v >> half) * width + (h >> half)) * stride : 0) +
                       (int)threadIdx.x % CHUNKS * CHUNK;
    }
}

/* Returns the address of the weight of output channel 0 and input channel 0 for the kernel tap
 * (at.dy, at.dx) and the frame at.frame. */
static __device__ __forceinline__ kvr_global<const kvr_bf16>
weights_of(const struct kvr_conv_shape &c, kvr_global<const kvr_bf16> w,
           const struct k_position &at)
{
    const int border = c.kernel / 2;

    return w + (((at.dy + border) * c.kernel + at.dx + border) * c.taps + at.frame) * c.in;
}

/* Advances `at` to the next K step. From the innermost to the outermost, the loops run over input
 * channels, kernel columns, frames and kernel rows. The loop over kernel columns is inside the loop
 * over frames because adjacent kernel columns read mostly the same input pixels, which are then
 * still in L1. */
static __device__ __forceinline__ void advance(const struct kvr_conv_shape &c,
                                               const struct frames &f, kvr_global<const kvr_bf16> w,
                                               const int (&y)[PIXEL_ROWS],
                                               const int (&x)[PIXEL_ROWS], struct k_position &at)
{
    at.channel += DEPTH;
    at.pixels = at.pixels + DEPTH;
    at.weights = at.weights + DEPTH;
    if (at.channel < c.in)
        return;
    at.channel = 0;
    if (++at.dx > c.kernel / 2) {
        at.dx = -(c.kernel / 2);
        if (++at.frame == c.taps) {
            at.frame = f.first;
            at.dy++;
        }
    }
    at.pixels = frame_of(f, at.frame);
    at.weights = weights_of(c, w, at);
    find_pixels(c, f.stride, y, x, at);
}

/* Issues cp.async copies of the pixels and weights of one K step into a stage. The copies write
 * zeros for pixels outside the frame, and for weights of output channels whose index is c.out or
 * more. */
template <int COLUMNS>
static __device__ __forceinline__ void fetch(const struct kvr_conv_shape &c,
                                             const struct k_position &at, int depth, int n0,
                                             kvr_shared<kvr_bf16> to)
{
    const int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;

#pragma unroll
    for (int i = 0; i < PIXEL_ROWS; i++)
        kvr_cp_async_ca(kvr_as<uint4>(to + i * ROWS * DEPTH),
                        kvr_as<const uint4>(at.pixels + at.offset[i]), at.there >> i & 1);
#pragma unroll
    for (int i = 0; i < COLUMNS / ROWS; i++) {
        const int n = n0 + row + i * ROWS;
        const bool there = n < c.out;

        kvr_cp_async(kvr_as<uint4>(to + (PIXELS + i * ROWS) * DEPTH),
                     kvr_as<const uint4>(at.weights + ((there ? n : 0) * depth + chunk * CHUNK)),
                     there);
    }
}

/* Offsets, in elements, of the shared-memory rows whose addresses this lane supplies to ldmatrix.
 * The offsets `a` belong to the warp's first 16 pixels and the offsets `b` to its first 16 output
 * channels. Each array has one offset per 16 input channels of the K step. */
struct lanes {
    int a[CHUNKS / 2], b[CHUNKS / 2];
};
static __device__ __forceinline__ struct lanes lanes_of(int lane, int wm, int wn)
{
    struct lanes at;

#pragma unroll
    for (int k = 0; k < CHUNKS / 2; k++) {
        at.a[k] = chunk_at(wm + lane % 16, 2 * k + lane / 16);
        at.b[k] = PIXELS * DEPTH + chunk_at(wn + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2);
    }
    return at;
}

/* Computes the MMAs of one K step for a warp. */
template <int N>
static __device__ __forceinline__ void
multiply(kvr_shared<kvr_bf16> stage, const struct lanes &lanes, float (&sum)[4][2 * N][4])
{
#pragma unroll
    for (int k = 0; k < CHUNKS / 2; k++) {
        const kvr_shared<kvr_bf16> a_row = stage + lanes.a[k], b_row = stage + lanes.b[k];
        unsigned a[4][4], b[N][4];

#pragma unroll
        for (int i = 0; i < 4; i++)
            kvr_ldmatrix(a[i], a_row + 16 * i * DEPTH);
#pragma unroll
        for (int j = 0; j < N; j++)
            kvr_ldmatrix(b[j], b_row + 16 * j * DEPTH);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2 * N; j++)
                kvr_mma(sum[i][j], a[i], b[j / 2] + j % 2 * 2);
    }
}

/* Rounds `low` and `high`, the values of output channels `column` and `column` + 1 of one pixel, to
 * BF16 and stores them. The address of the pixel's channel 0 is y. Channels whose index is `out` or
 * more do not exist and are not stored. Without ODD, `out` is even, and one 4-byte store writes
 * both channels. */
template <bool ODD>
static __device__ __forceinline__ void put(kvr_global<kvr_bf16> y, int column, int out, float low,
                                           float high)
{
    const unsigned pair = kvr_bf16_pair(low, high);

    if constexpr (!ODD) {
        if (column < out)
            *kvr_as<unsigned>(y + column) = pair;
    } else {
        if (column < out)
            y[column] = (kvr_bf16)pair;
        if (column + 1 < out)
            y[column + 1] = (kvr_bf16)(pair >> 16);
    }
}

template <int COLUMNS>
static __global__ void __launch_bounds__(THREADS, 2)
    conv_mma(struct kvr_conv_shape c, int first, int stride, kvr_global<const kvr_bf16> f0,
             kvr_global<const kvr_bf16> f1, kvr_global<const kvr_bf16> f2,
             kvr_global<const kvr_bf16> w, kvr_global<const float> bias, kvr_global<kvr_bf16> out)
{
    enum { STAGE = (PIXELS + COLUMNS) * DEPTH, N = COLUMNS / 32 };
    KVR_SHARED(uint4, shared, STAGES * STAGE / CHUNK);
    const kvr_shared<kvr_bf16> stages = kvr_as<kvr_bf16>(shared);
    const struct frames f = { f0, f1, f2, first, stride };
    const int mine = chunk_at((int)threadIdx.x / CHUNKS, (int)threadIdx.x % CHUNKS);
    const int across = (c.out + COLUMNS - 1) / COLUMNS, lane = (int)threadIdx.x % 32;
    const int warp = (int)threadIdx.x / 32, wm = warp / 2 * (PIXELS / 2),
              wn = warp % 2 * (COLUMNS / 2);
    const int p0 = (int)blockIdx.x / across * PIXELS, n0 = (int)blockIdx.x % across * COLUMNS;
    const int around = c.kernel * c.kernel, depth = around * c.taps * c.in;
    const int steps = around * (c.taps - first) * (c.in / DEPTH);
    const struct lanes lanes = lanes_of(lane, wm, wn);
    const int corner = -(c.kernel / 2);
    struct k_position at = {
        corner, corner, first, 0, frame_of(f, first), w + first * c.in, {}, 0
    };
    int y[PIXEL_ROWS], x[PIXEL_ROWS];
    float sum[4][2 * N][4];

#pragma unroll
    for (int i = 0; i < 32 * N; i++)
        sum[i / (8 * N)][i / 4 % (2 * N)][i % 4] = 0;
    begin_rows(c, p0, y, x);
    find_pixels(c, stride, y, x, at);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            fetch<COLUMNS>(c, at, depth, n0, stages + (s * STAGE + mine));
            advance(c, f, w, y, x, at);
        }
        kvr_cp_async_commit();
    }
    for (int s = 0, full = 0, empty = (STAGES - 1) * STAGE; s < steps; s++) {
        kvr_cp_async_wait<STAGES - 2>();
        __syncthreads(); /* waits for this stage's copies and for the previous stage's readers */
        if (s + STAGES - 1 < steps)
            fetch<COLUMNS>(c, at, depth, n0, stages + (empty + mine));
        kvr_cp_async_commit();
        multiply<N>(stages + full, lanes, sum);
        if (s + STAGES < steps) /* advance() computes addresses while the MMAs execute */
            advance(c, f, w, y, x, at);
        empty = full;
        full = full + STAGE < STAGES * STAGE ? full + STAGE : 0;
    }
#pragma unroll
    for (int j = 0; j < 2 * N; j++) { /* this thread's channel pairs */
        const int column = n0 + wn + 8 * j + lane % 4 * 2;
        const float low = column < c.out ? (float)bias[column] : 0.0f;
        const float high = column + 1 < c.out ? (float)bias[column + 1] : 0.0f;

#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int p = p0 + wm + 8 * i + lane / 4;

            if (p < c.height * c.width)
                put<COLUMNS == ANY>(out + (int64_t)p * c.out, column, c.out,
                                    sum[i / 2][j][i % 2 * 2] + low,
                                    sum[i / 2][j][i % 2 * 2 + 1] + high);
        }
    }
}

/* ---- launchers ----------------------------------------------------------------------------- */

bool kvr_conv_mma_accepts(const struct kvr_conv_shape *c, const struct kvr_conv_frame *frames)
{
    const int64_t n_in = (int64_t)(c->height / c->up) * (c->width / c->up);
    const int64_t most = INT32_MAX; /* the kernel computes pixel indices and offsets as 32-bit
                                     * integers */

    for (int t = 0; t < c->taps; t++)
        if (frames[t].p &&
            (!kvr_aligned(frames[t].p, 16) || frames[t].stride % CHUNK != 0 ||
             frames[t].stride != frames[c->taps - 1].stride || n_in * frames[t].stride > most))
            return false;
    return c->in % DEPTH == 0 && (int64_t)c->height * c->width <= most - PIXELS &&
           (int64_t)c->out * c->kernel * c->kernel * c->taps * c->in <= most;
}

template <int COLUMNS>
static void conv_by(struct kvr_stream *s, const struct kvr_conv_shape *c,
                    const struct kvr_conv_frame *f, int first, const kvr_bf16 *w, const float *bias,
                    kvr_bf16 *y)
{
    const unsigned blocks =
        kvr_blocks((int64_t)c->height * c->width, PIXELS) * kvr_blocks(c->out, COLUMNS);

    KVR_LAUNCH(conv_mma<COLUMNS>, blocks, THREADS, 0, s, *c, first, f[c->taps - 1].stride,
               (const kvr_bf16 *)f[0].p, (const kvr_bf16 *)f[1].p, (const kvr_bf16 *)f[2].p, w,
               bias, y);
}

/* Returns `out` rounded up to a multiple of `columns`. */
static int padded(int out, int columns)
{
    return (out + columns - 1) / columns * columns;
}

void kvr_conv_mma_run(struct kvr_stream *s, const struct kvr_conv_shape *c,
                      const struct kvr_conv_frame *frames, const kvr_bf16 *w, const float *bias,
                      kvr_bf16 *y)
{
    struct kvr_conv_frame f[3] = {};
    const int first = kvr_conv_frames_copy(c, frames, f);

    if (c->out <= ANY || c->out % 2)
        conv_by<ANY>(s, c, f, first, w, bias, y);
    else if (padded(c->out, 96) < padded(c->out, 128))
        conv_by<96>(s, c, f, first, w, bias, y);
    else
        conv_by<128>(s, c, f, first, w, bias, y);
}
