/* test_variants.c - every variant of the metric kernels gives the same results, bit for bit, as the
 * portable variant. Inputs include extreme values, NaN, and sizes that are no multiple of a
 * vector's length. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/isa.h"
#include "metrics/kernels.h"
#include "tests/metrics/cases.h"
#include "tests/suite.h"

enum { MOST = 70000 };

static const size_t sizes[] = { 0, 1, 3, 15, 63, 64, 65, 191, 192, 1000, 32768, 32769, MOST };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static uint8_t a[3 * MOST], b[3 * MOST], c[3 * MOST];

/* fill 0: a and b are noise; 1: a is 0 and b is 255, the largest difference; 2: b equals a. */
static void fill_bytes(int fill)
{
    uint32_t s = 5;

    for (size_t i = 0; i < sizeof a; i++) {
        a[i] = fill == 1 ? 0 : lcg_byte(&s);
        b[i] = fill == 1 ? 255 : fill == 2 ? a[i] : lcg_byte(&s);
        c[i] = fill == 1 ? 0 : lcg_byte(&s);
    }
}

/* Calls results() with the portable kernels, then with every other variant that this CPU supports.
 * Each call must write the same n bytes. */
static void same_everywhere(void (*results)(size_t size, void *out), size_t size, size_t n)
{
    uint8_t *want = malloc(n), *have = malloc(n);

    ck_assert_ptr_nonnull(want);
    ck_assert_ptr_nonnull(have);
    memset(want, 0, n);
    ck_assert_int_eq(kvr_isa_force("portable"), KVR_OK);
    results(size, want);
    for (int i = 0; i < KVR_N_ISA; i++) {
        const enum kvr_isa isa = (enum kvr_isa)i;

        if (!kvr_isa_usable(isa))
            continue;
        memset(have, 0, n);
        ck_assert_int_eq(kvr_isa_force(kvr_isa_name(isa)), KVR_OK);
        results(size, have);
        ck_assert_msg(!memcmp(have, want, n), "%s, size %zu: not as portable", kvr_isa_name(isa),
                      size);
    }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    free(want);
    free(have);
}

static void byte_sums(size_t n, void *out)
{
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    uint64_t *sum = out;

    sum[0] = k->sum_squared(a, b, n);
    sum[1] = k->sum_absolute(a, b, n);
    sum[2] = k->sum_bend(a, b, c, n);
    k->sum_colours(a, n, sum + 3);
}

static void lumas(size_t n, void *out)
{
    kvr_metric_kernels()->luma(out, a, n);
}

/* Calls the kernel twice; the second call adds to the sums of the first. */
static void laplacians(size_t n, void *out)
{
    int64_t *sums = out;

    for (int w = 3; w <= 7; w += 4)
        kvr_metric_kernels()->laplacian(a + w, w, (int)n, &sums[0], &sums[1]);
}

START_TEST(sums_of_bytes)
{
    const size_t n = sizes[_i % N_SIZES];
    uint64_t sums[6], want[6] = { 0 };

    fill_bytes(_i / N_SIZES);
    same_everywhere(byte_sums, n, sizeof sums);
    same_everywhere(lumas, n, n + 1);
    same_everywhere(laplacians, n, 2 * sizeof(int64_t));
    byte_sums(n, sums);
    for (size_t i = 0; i < n; i++) {
        const int d = a[i] - b[i], bend = 2 * b[i] - a[i] - c[i];

        want[0] += (uint64_t)(d * d);
        want[1] += (uint64_t)abs(d);
        want[2] += (uint64_t)abs(bend);
        for (int j = 0; j < 3; j++)
            want[3 + j] += a[3 * i + (size_t)j];
    }
    for (int i = 0; i < 6; i++)
        ck_assert_msg(sums[i] == want[i], "sum %d of %zu", i, n);
}
END_TEST

/* The kernel divides by 1000 with a multiplication; all 2^24 colours must give the exact luma. */
START_TEST(luma_of_every_colour)
{
    uint8_t rgb[3 * 256], y[256];
    int wrong = 0;

    for (int r = 0; r < 256; r++)
        for (int g = 0; g < 256; g++) {
            for (int i = 0; i < 256; i++)
                memcpy(rgb + 3 * i, (uint8_t[3]){ (uint8_t)r, (uint8_t)g, (uint8_t)i }, 3);
            kvr_metric_kernels()->luma(y, rgb, 256);
            for (int i = 0; i < 256; i++)
                wrong += y[i] != (299 * r + 587 * g + 114 * i + 500) / 1000;
        }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

/* Writes one row of the SSIM map. The column sums are those of 8 rows without the first one, as
 * after the window has moved down by one row. */
static void uniform_map(size_t n, void *out)
{
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    const int row = (int)n + 18;
    int32_t *sums = calloc(5 * (size_t)row, sizeof *sums);
    const struct kvr_ssim_columns s = { sums, sums + row, sums + 2 * row, sums + 3 * row,
                                        sums + 4 * row };

    ck_assert_ptr_nonnull(sums);
    for (int y = 0; y < 8; y++)
        k->ssim_add(&s, a + y * row, b + y * row, row, 1);
    k->ssim_add(&s, a, b, row, -1);
    k->ssim_map(&s, (int)n, out);
    free(sums);
}

static float fa[2][4 * MOST];

static void gaussian(size_t n, void *out)
{
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    static const double g[11] = {
        .001, .008, .036, .109, .213, .266, .213, .109, .036, .008, .001
    };
    const int w = (int)n + 10;
    double *work = calloc(10 * (size_t)w, sizeof *work), *to = out;
    const double *rows[11];

    ck_assert_ptr_nonnull(work);
    k->gauss_products(fa[0], fa[1], w, work);
    for (int m = 0; m < 5; m++)
        k->gauss_along(g, work + m * w, (int)n, work + 5 * w + m * (int)n);
    for (int i = 0; i < 11; i++)
        rows[i] = work + i;
    k->gauss_across(g, rows, (int)n, to);
    k->gauss_map(work + 5 * w, (int)n, to + n, to + 2 * n);
    free(work);
}

static void distances(size_t n, void *out)
{
    const struct kvr_metric_kernels *k = kvr_metric_kernels();
    double *to = out;

    k->add_squares(fa[0], n, to);
    k->add_squares(fa[1], n, to + n);
    k->add_distance(fa[0], to, fa[1], to + n, .37, n, to + 2 * n);
}

START_TEST(maps_of_doubles)
{
    const size_t n = sizes[_i % N_SIZES] / 16 + 1;
    const int fill = _i / N_SIZES;

    fill_bytes(fill);
    for (size_t i = 0; i < n + 10; i++)
        for (int side = 0; side < 2; side++)
            fa[side][i] = fill == 1 ? 3e38f : (float)(side ? b[i] : a[i]) / 3;
    if (fill == 2) {
        fa[0][n / 2] = INFINITY;
        fa[1][n / 3] = NAN;
        fa[1][0] = 1e-40f;
    }
    same_everywhere(uniform_map, n, n * sizeof(double));
    same_everywhere(gaussian, n, 3 * n * sizeof(double));
    same_everywhere(distances, n, 3 * n * sizeof(double));
}
END_TEST

/* Compares values and series of whole metrics. LPIPS is left out because a library computes its
 * features. */
START_TEST(metrics_are_the_same)
{
    static const struct {
        enum case_kind kind;
        int n, height, width;
    } clips[] = { { CASE_NOISE, 4, 16, 20 },
                  { CASE_SMOOTH, 5, 179, 201 },
                  { CASE_FAINT, 4, 40, 64 } };
    struct pair p = make_pair(clips[_i].kind, clips[_i].n, clips[_i].height, clips[_i].width);

    for (int m = 0; kvr_metrics[m]; m++) {
        struct kvr_metric_value want, have;

        ck_assert_int_eq(kvr_isa_force("portable"), KVR_OK);
        ck_assert_int_eq(kvr_metric_compute(kvr_metrics[m], &p.ref, &p.test, &want), KVR_OK);
        for (int i = 0; i < KVR_N_ISA; i++) {
            const enum kvr_isa isa = (enum kvr_isa)i;

            if (!kvr_isa_usable(isa))
                continue;
            ck_assert_int_eq(kvr_isa_force(kvr_isa_name(isa)), KVR_OK);
            ck_assert_int_eq(kvr_metric_compute(kvr_metrics[m], &p.ref, &p.test, &have), KVR_OK);
            ck_assert_str_eq(have.missing, want.missing);
            ck_assert_msg(!memcmp(&have.value, &want.value, sizeof want.value),
                          "%s, %s: %.17g, %.17g", kvr_metrics[m]->name, kvr_isa_name(isa),
                          have.value, want.value);
            ck_assert_int_eq(have.n_series, want.n_series);
            ck_assert(!want.n_series || !memcmp(have.series, want.series,
                                                (size_t)want.n_series * sizeof *want.series));
            kvr_metric_value_free(&have);
        }
        kvr_metric_value_free(&want);
    }
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
    free_pair(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("metric variants");
    TCase *tc = tcase_create("variants");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, sums_of_bytes, 0, 3 * N_SIZES);
    tcase_add_test(tc, luma_of_every_colour);
    tcase_add_loop_test(tc, maps_of_doubles, 0, 3 * N_SIZES);
    tcase_add_loop_test(tc, metrics_are_the_same, 0, 3);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
