/* cases.h - pairs of small videos that C and Python generate identically, with their metric values
 * from scikit-image.
 *
 *     def lcg(n, x):                       # bytes of a linear congruential generator
 *         for i in range(n):
 *             x = (1664525 * x + 1013904223) % 2**32
 *             out[i] = x >> 24
 *     i = arange(n*h*w*3); c = i % 3; x = i//3 % w; y = i//(3*w) % h; t = i//(3*w*h)
 *     ramp = (8*x + 5*y + 3*t + 40*c) % 256
 *     noise:  a = lcg(m, 1)   b = lcg(m, 2)
 *     smooth: a = ramp        b = clip(a + lcg(m, 3) % 17 - 8, 0, 255)
 *     flat:   a = 100         b = 103
 *     faint:  a = ramp        b = a, every 4001st sample from 0 on with its lowest bit flipped
 *     psnr = 10 log10(255^2 / mean((a - b)^2))         over the whole video
 *     psnr0 = peak_signal_noise_ratio(a[0], b[0], data_range=255)
 *     ssim = mean over frames of structural_similarity(a[t], b[t], channel_axis=-1,
 *            data_range=255); first and last: of these frames alone */
#ifndef TESTS_METRICS_CASES_H
#define TESTS_METRICS_CASES_H

#include <check.h>
#include <stdlib.h>

#include "metrics/metric.h"

enum case_kind { CASE_NOISE, CASE_SMOOTH, CASE_FLAT, CASE_FAINT };

static const struct metric_case {
    enum case_kind kind;
    int n, height, width;
    double psnr, psnr0, ssim, ssim_first, ssim_last;
} metric_cases[] = {
    { CASE_NOISE, 3, 16, 20, 7.70258913023161, 7.6205605464229, 0.0108308688644911,
      -0.0228062138707181, 0.0347383867989821 },
    { CASE_SMOOTH, 4, 33, 29, 34.4274210093468, 34.4498689770169, 0.980553182353048,
      0.980401786101703, 0.980553733306774 },
    { CASE_SMOOTH, 2, 7, 7, 34.2180911250789, 34.2724314744646, 0.969410226594098,
      0.969218419551308, 0.969602033636888 },
    { CASE_FLAT, 2, 12, 9, 38.5883785142858, 38.5883785142858, 0.999563435332221, 0.999563435332221,
      0.999563435332221 },
    { CASE_FAINT, 5, 40, 64, 83.9741158523544, 83.9741158523544, 0.999999743458911,
      0.99999978011532, 0.999999579459185 },
};
enum { N_METRIC_CASES = sizeof metric_cases / sizeof metric_cases[0] };

struct pair {
    struct kvr_frames ref, test;
    uint8_t *a, *b;
};

static inline uint8_t lcg_byte(uint32_t *x)
{
    *x = 1664525u * *x + 1013904223u;
    return (uint8_t)(*x >> 24);
}

static inline struct pair make_pair(enum case_kind kind, int n, int height, int width)
{
    size_t m = (size_t)n * (size_t)height * (size_t)width * 3;
    struct pair p = { .a = malloc(m), .b = malloc(m) };
    uint32_t s1 = 1, s2 = 2, s3 = 3;

    ck_assert_ptr_nonnull(p.a);
    ck_assert_ptr_nonnull(p.b);
    for (size_t i = 0; i < m; i++) {
        size_t c = i % 3, x = i / 3 % (size_t)width;
        size_t y = i / 3 / (size_t)width % (size_t)height;
        size_t t = i / 3 / (size_t)width / (size_t)height;
        int ramp = (int)((8 * x + 5 * y + 3 * t + 40 * c) % 256);
        int near_ramp = ramp + lcg_byte(&s3) % 17 - 8;

        switch (kind) {
        case CASE_NOISE:
            p.a[i] = lcg_byte(&s1);
            p.b[i] = lcg_byte(&s2);
            break;
        case CASE_SMOOTH:
            p.a[i] = (uint8_t)ramp;
            p.b[i] = (uint8_t)(near_ramp < 0 ? 0 : near_ramp > 255 ? 255 : near_ramp);
            break;
        case CASE_FLAT:
            p.a[i] = 100;
            p.b[i] = 103;
            break;
        case CASE_FAINT:
            p.a[i] = (uint8_t)ramp;
            p.b[i] = (uint8_t)(ramp ^ (i % 4001 == 0));
            break;
        }
    }
    p.ref = (struct kvr_frames){ n, height, width, p.a };
    p.test = (struct kvr_frames){ n, height, width, p.b };
    return p;
}

static inline void free_pair(struct pair *p)
{
    free(p->a);
    free(p->b);
}

#endif
