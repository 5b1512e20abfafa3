/* kernels_isa.c - loops whose result does not depend on the vector width: sums of integers, or
 * independent sums of doubles. Inner loops sum at most BLOCK elements, so that the sums fit into
 * 32-bit lanes. */
#include "metrics/kernels.h"

/* Of BLOCK elements, the squared differences sum to at most 255^2 * 32768, and the second
 * differences |2 b - a - c| <= 510 to at most 510 * 32768. Both are below 2^31. */
enum { BLOCK = 32768 };

static uint64_t sum_squared(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint64_t total = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t end = n - i < BLOCK ? n : i + BLOCK;
        int32_t sum = 0;

        for (size_t j = i; j < end;
             /* 16-bit differences allow multiply-add instructions on pairs (pmaddwd). */
             j++) {
            const int16_t d = (int16_t)(a[j] - b[j]);

            sum += d * d;
        }
        total += (uint64_t)sum;
    }
    return total;
}

static uint64_t sum_absolute(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint64_t total = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t end = n - i < BLOCK ? n : i + BLOCK;
        int32_t sum = 0;

        for (size_t j = i; j < end; j++) {
            const int d = a[j] - b[j];

            sum += d < 0 ? -d : d;
        }
        total += (uint64_t)sum;
    }
    return total;
}

static uint64_t sum_bend(const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t n)
{
    uint64_t total = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t end = n - i < BLOCK ? n : i + BLOCK;
        int32_t sum = 0;

        for (size_t j = i; j < end; j++) {
            const int16_t d = (int16_t)(2 * b[j] - a[j] - c[j]);

            sum += d < 0 ? -d : d;
        }
        total += (uint64_t)sum;
    }
    return total;
}

/* Sums each of R, G and B over n pixels. The bytes are split into lines of LINE bytes, a multiple
 * of the 3 channels and of the vector size. part[j] accumulates byte j of successive lines. */
static void sum_colours(const uint8_t *rgb, size_t n, uint64_t sum[3])
{
    enum { LINE = 192 };
    const size_t bytes = 3 * n;
    size_t i = 0;

    sum[0] = sum[1] = sum[2] = 0;
    while (i + LINE <= bytes) {
        uint16_t part[LINE] = { 0 };

        /* The sum of 257 bytes fits 16 bits: 257 * 255 < 2^16. */
        for (int k = 0; k < 257 && i + LINE <= bytes; k++, i += LINE)
            for (int j = 0; j < LINE; j++)
                part[j] = (uint16_t)(part[j] + rgb[i + (size_t)j]);
        for (int j = 0; j < LINE; j++)
            sum[j % 3] += part[j];
    }
    for (; i < bytes; i++)
        sum[i % 3] += rgb[i];
}

/* Converts RGB to luma. v is 1000 times the luma, plus 500 to round to nearest, and floor(v / 1000)
 * = floor(u / 125) with u = floor(v / 8). For u < 58000, floor(u / 125) is (33555 u) >> 22. The
 * reason: 33555 exceeds 2^22 / 125 by 0.57, so the quotient is too large by less than 1 / 125 and
 * rounds down to the same integer. */
static void luma(uint8_t *restrict y, const uint8_t *restrict rgb, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t v = 299u * rgb[3 * i] + 587u * rgb[3 * i + 1] + 114u * rgb[3 * i + 2] + 500u;

        y[i] = (uint8_t)((v >> 3) * 33555u >> 22);
    }
}

/* Sums the Laplacian and its square over n pixels. The inner loop sums at most 2048 pixels in 32
 * bits: a Laplacian is at most 1020 in magnitude, and 2048 * 1020^2 < 2^31. */
static void laplacian(const uint8_t *p, int w, int n, int64_t *sum, int64_t *squares)
{
    for (int i = 0; i < n; i += 2048) {
        const int end = n - i < 2048 ? n : i + 2048;
        int32_t s = 0, s2 = 0;

        for (int x = i; x < end; x++) {
            const int16_t l = (int16_t)(p[x - 1] + p[x + 1] + p[x - w] + p[x + w] - 4 * p[x]);

            s += l;
            s2 += l * l;
        }
        *sum += s;
        *squares += s2;
    }
}

/* ---- SSIM over a uniform window ---------------------------------------------------------- */

static void ssim_add(const struct kvr_ssim_columns *c, const uint8_t *restrict a,
                     const uint8_t *restrict b, int row, int sign)
{
    int32_t *restrict x = c->x, *restrict y = c->y;
    int32_t *restrict xx = c->xx, *restrict yy = c->yy, *restrict xy = c->xy;

    for (int i = 0; i < row; i++) {
        const int32_t p = a[i], q = b[i], sp = sign * p, sq = sign * q;

        x[i] += sp;
        y[i] += sq;
        xx[i] += sp * p;
        yy[i] += sq * q;
        xy[i] += sp * q;
    }
}

/* Sums the 7 columns of a window of one channel. RGB is interleaved, so columns are 3 apart. */
static inline int32_t hsum_i32(const int32_t *p)
{
    return p[0] + p[3] + p[6] + p[9] + p[12] + p[15] + p[18];
}

static void ssim_map(const struct kvr_ssim_columns *c, int n, double *restrict map)
{
    enum { N = 7 * 7 };
    const double c1 = N * N * 0.01 * 255.0 * 0.01 * 255.0;
    const double c2 = N * (N - 1) * 0.03 * 255.0 * 0.03 * 255.0;
    const int32_t *restrict cx = c->x, *restrict cy = c->y;
    const int32_t *restrict cxx = c->xx, *restrict cyy = c->yy, *restrict cxy = c->xy;

    for (int i = 0; i < n; i++) {
        const int32_t x = hsum_i32(cx + i), y = hsum_i32(cy + i);
        const int32_t xx = hsum_i32(cxx + i), yy = hsum_i32(cyy + i), xy = hsum_i32(cxy + i);
        const double num = (2 * x * y + c1) * (2 * (N * xy - x * y) + c2);
        const double den = (x * x + y * y + c1) * (N * xx - x * x + (N * yy - y * y) + c2);

        map[i] = num / den;
    }
}

/* ---- SSIM over a Gaussian window --------------------------------------------------------- */

enum { WIN = 11 };

static void gauss_products(const float *restrict a, const float *restrict b, int width,
                           double *restrict maps)
{
    double *restrict x = maps, *restrict y = x + width, *restrict xx = y + width;
    double *restrict yy = xx + width, *restrict xy = yy + width;

    for (int i = 0; i < width; i++) {
        const double p = (double)a[i], q = (double)b[i];

        x[i] = p;
        y[i] = q;
        xx[i] = p * p;
        yy[i] = q * q;
        xy[i] = p * q;
    }
}

static void gauss_along(const double g[WIN], const double *restrict in, int n, double *restrict out)
{
    for (int x = 0; x < n; x++) {
        double s = g[0] * in[x];

#pragma GCC unroll 10
        for (int k = 1; k < WIN; k++)
            s += g[k] * in[x + k];
        out[x] = s;
    }
}

static void gauss_across(const double g[WIN], const double *const rows[WIN], int n,
                         double *restrict out)
{
    for (int x = 0; x < n; x++) {
        double s = g[0] * rows[0][x];

#pragma GCC unroll 10
        for (int k = 1; k < WIN; k++)
            s += g[k] * rows[k][x];
        out[x] = s;
    }
}

static void gauss_map(const double *maps, int n, double *restrict ssim, double *restrict contrast)
{
    const double c1 = 0.01 * 255.0 * 0.01 * 255.0, c2 = 0.03 * 255.0 * 0.03 * 255.0;
    const double *mx = maps, *my = mx + n, *xx = my + n, *yy = xx + n, *xy = yy + n;

    for (int x = 0; x < n; x++) {
        const double sx = xx[x] - mx[x] * mx[x], sy = yy[x] - my[x] * my[x];
        const double cs = (2.0 * (xy[x] - mx[x] * my[x]) + c2) / (sx + sy + c2);

        contrast[x] = cs;
        ssim[x] = cs * (2.0 * mx[x] * my[x] + c1) / (mx[x] * mx[x] + my[x] * my[x] + c1);
    }
}

/* ---- LPIPS ------------------------------------------------------------------------------- */

static void add_squares(const float *restrict a, size_t n, double *restrict sum)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += (double)a[i] * (double)a[i];
}

static void add_distance(const float *restrict a, const double *restrict na,
                         const float *restrict b, const double *restrict nb, double w, size_t n,
                         double *restrict sum)
{
    for (size_t i = 0; i < n; i++) {
        const double e = (double)a[i] * na[i] - (double)b[i] * nb[i];

        sum[i] += w * e * e;
    }
}

const struct kvr_metric_kernels KVR_ISA_NAME(kvr_metric_kernels) = {
    .sum_squared = sum_squared,
    .sum_absolute = sum_absolute,
    .sum_bend = sum_bend,
    .sum_colours = sum_colours,
    .luma = luma,
    .laplacian = laplacian,
    .ssim_add = ssim_add,
    .ssim_map = ssim_map,
    .gauss_products = gauss_products,
    .gauss_along = gauss_along,
    .gauss_across = gauss_across,
    .gauss_map = gauss_map,
    .add_squares = add_squares,
    .add_distance = add_distance,
};
