/* test_hadamard.c - the fast transform against the Walsh-Hadamard matrix. */
#include "methods/codecs/hadamard/fwht.h"
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

static const int widths[] = { 2, 4, 8, 16, 32, 64, 128, 256, 1024 };
enum { N_WIDTHS = sizeof widths / sizeof *widths, ROWS = 7 };

/* H[i][j] = (-1)^popcount(i & j) in Sylvester's order. */
static void by_matrix(const float *x, int d, double *y)
{
    for (int i = 0; i < d; i++) {
        y[i] = 0;
        for (int j = 0; j < d; j++)
            y[i] += __builtin_popcount((unsigned)(i & j)) % 2 ? -(double)x[j] : (double)x[j];
        y[i] /= sqrt(d);
    }
}

static double norm_of(const float *x, int d)
{
    double sum = 0;

    for (int i = 0; i < d; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Returns a bound of the L2 norm of the rounding error. Each of the log2 D butterfly stages and the
 * division by sqrt(D) rounds every element once, with a relative error of at most u. The orthogonal
 * transform preserves the L2 norm, so the error is at most (log2 D + 1) u |x| plus terms in u^2,
 * for which 2 u |x| is added. */
static double tolerance(const float *x, int d, double u)
{
    return (log2(d) + 3) * u * norm_of(x, d);
}

START_TEST(is_the_matrix)
{
    const int d = widths[_i % N_WIDTHS];
    const enum kvr_compute compute = _i / N_WIDTHS ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32;
    const struct kvr_block_shape shape = { ROWS, 1, d };
    const size_t n = elements(&shape);
    float *x = floats(n), *y = guarded(n * sizeof *y);
    double *want = malloc(sizeof *want * (size_t)d);

    ck_assert_ptr_nonnull(want);
    fill_block(x, &shape, FILL_NORMAL, 3);
    memcpy(y, x, n * sizeof *x);
    kvr_fwht(y, ROWS, d, compute);
    check_guards(y, n * sizeof *y);
    for (int r = 0; r < ROWS; r++) {
        const double tol = tolerance(x + r * d, d, compute ? 0x1p-8 : 0x1p-24);
        double sum = 0;

        by_matrix(x + r * d, d, want);
        for (int i = 0; i < d; i++)
            sum += (y[r * d + i] - want[i]) * (y[r * d + i] - want[i]);
        ck_assert_msg(sqrt(sum) <= tol, "D %d row %d: off by %g > %g", d, r, sqrt(sum), tol);
        for (int i = 0; i < d && compute; i++)
            ck_assert(y[r * d + i] == kvr_bf16_to_f32(kvr_f32_to_bf16(y[r * d + i])));
    }
    free(x);
    free(want);
    guarded_free(y);
}
END_TEST

/* Computes the transform with one butterfly stage after the other, in the order that fwht.h
 * defines, and rounds every sum. The results of kvr_fwht() must be bit-identical. */
static void by_definition(float *x, int d, bool bf16)
{
    for (int h = 1; h < d; h *= 2)
        for (int i = 0; i < d; i++) {
            const float a = x[i], b = x[i ^ h];

            if (i & h)
                continue;
            x[i] = bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(a + b)) : a + b;
            x[i ^ h] = bf16 ? kvr_bf16_to_f32(kvr_f32_to_bf16(a - b)) : a - b;
        }
    for (int i = 0; i < d; i++) {
        x[i] /= sqrtf((float)d);
        if (bf16)
            x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    }
}

START_TEST(rounds_where_the_definition_does)
{
    const int d = widths[_i % N_WIDTHS];
    const bool bf16 = _i / N_WIDTHS;

    for (int how = 0; how < N_FILLS; how++) {
        /* Enough rows for several threads. */
        const struct kvr_block_shape shape = { 300, 1, d };
        const size_t n = elements(&shape);
        float *x = floats(n), *y = floats(n);

        fill_block(x, &shape, how, 4);
        memcpy(y, x, n * sizeof *x);
        kvr_fwht(y, shape.n_tok, d, bf16 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32);
        for (int64_t r = 0; r < shape.n_tok; r++)
            by_definition(x + r * d, d, bf16);
        for (size_t i = 0; i < n; i++)
            if (!same(x[i], y[i]))
                ck_abort_msg("D %d %s element %zu: %a, not %a", d, fill_names[how], i, (double)y[i],
                             (double)x[i]);
        free(x);
        free(y);
    }
}
END_TEST

START_TEST(twice_is_the_identity)
{
    const int d = widths[_i];
    const struct kvr_block_shape shape = { ROWS, 1, d };
    const size_t n = elements(&shape);
    float *x = floats(n), *y = floats(n);

    fill_block(x, &shape, FILL_OUTLIER_CHANNEL, 5);
    memcpy(y, x, n * sizeof *x);
    kvr_fwht(y, ROWS, d, KVR_COMPUTE_F32);
    kvr_fwht(y, ROWS, d, KVR_COMPUTE_F32);
    for (int r = 0; r < ROWS; r++) {
        const double tol = 2 * tolerance(x + r * d, d, 0x1p-24);
        double sum = 0;

        for (int i = r * d; i < (r + 1) * d; i++)
            sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        ck_assert_msg(sqrt(sum) <= tol, "D %d row %d: off by %g > %g", d, r, sqrt(sum), tol);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(other_widths_are_refused)
{
    struct kvr_codec *c = open_codec("hadamard | sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    const int bad[] = { 1, 3, 96, 130, 2048 };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[16];

        snprintf(text, sizeof text, "%d", bad[i]);
        ck_assert_int_eq(kvr_codec_check(c, 2, bad[i]), KVR_EINVAL);
        ck_assert_msg(strstr(kvr_error(), text) != NULL, "%s", kvr_error());
    }
    for (int i = 0; i < N_WIDTHS; i++)
        ck_assert_int_eq(kvr_codec_check(c, 2, widths[i]), KVR_OK);
    kvr_codec_close(&c);
}
END_TEST

/* decode_rotated returns H x. Applying the transform again gives the result of decode. */
START_TEST(rotation_can_be_left_in_place)
{
    const struct kvr_block_shape shape = { 37, 3, 64 };
    const size_t n = elements(&shape);
    struct kvr_dev *dev = open_dev();
    struct kvr_codec *c = open_codec("hadamard | sym(bits=4)", KVR_K, false, KVR_COMPUTE_F32);
    float *x = floats(n), *work = floats(n), *a = floats(n), *b = floats(n);
    struct kvr_packed p;

    ck_assert(kvr_codec_rotated(c));
    fill_block(x, &shape, FILL_OUTLIER_CHANNEL, 6);
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &p), KVR_OK);
    kvr_codec_decode(&p, 0, shape.n_tok, 0, shape.n_heads, a);
    kvr_codec_decode_rotated(&p, 0, shape.n_tok, 0, shape.n_heads, b);
    ck_assert(memcmp(a, b, n * sizeof *a) != 0);
    kvr_fwht(b, shape.n_tok * shape.n_heads, shape.head_dim, KVR_COMPUTE_F32);
    ck_assert(memcmp(a, b, n * sizeof *a) == 0);
    kvr_packed_free(&p);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(a);
    free(b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hadamard");
    TCase *tc = tcase_create("hadamard");

    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, is_the_matrix, 0, 2 * N_WIDTHS);
    tcase_add_loop_test(tc, rounds_where_the_definition_does, 0, 2 * N_WIDTHS);
    tcase_add_loop_test(tc, twice_is_the_identity, 0, N_WIDTHS);
    tcase_add_test(tc, other_widths_are_refused);
    tcase_add_test(tc, rotation_can_be_left_in_place);
    return run_suite(s);
}
