/* cases_rows.c - gathered, scattered and rounded rows: CPU against CUDA, bit-identical. */
#include "harness/cache/rows_cuda.h"
#include "methods/codecs/raw/raw_cuda.h"
#include "tests/cuda/both.h"

enum { ROWS = 9, LISTED = 4, TOK0 = 3 };
static const int32_t list[LISTED] = { 3, 5, 6, 11 };
static const size_t widths[] = { 3, 8, 516 };

START_TEST(moves)
{
    const enum kvr_rows_way way = (enum kvr_rows_way)(_i % 3);
    const size_t width = widths[_i / 3], n = ROWS * width;
    const struct kvr_block_shape shape = { ROWS, 1, (int)width };
    float *x = floats(n), *want = floats(n), *got = floats(n), *d_out;
    const int moved = way == KVR_ROWS_REPEAT ? ROWS : LISTED;

    fill_block(x, &shape, FILL_NORMAL, 1);
    for (int i = 0; i < moved; i++) {
        const int named = way == KVR_ROWS_REPEAT ? 0 : list[i] - TOK0;
        const bool to = way == KVR_ROWS_SCATTER;

        memcpy(want + (size_t)(to ? named : i) * width, x + (size_t)(to ? i : named) * width,
               width * sizeof *x);
    }
    d_out = both_inout(got, n * sizeof *got);
    kvr_rows_move_cuda(both_stream, way, both_in(x, n * sizeof *x), width,
                       way == KVR_ROWS_REPEAT ? NULL : both_in(list, sizeof list), moved, TOK0,
                       d_out);
    both_get(got, d_out, n * sizeof *got, "rows");
    ck_assert_mem_eq(got, want, n * sizeof *got);
    both_free();
    free(x);
    free(want);
    free(got);
}
END_TEST

START_TEST(rounding)
{
    const struct kvr_block_shape shape = { 7, 1, 43 };
    const size_t n = elements(&shape);
    float *x = floats(n), *got = floats(n), *d_x;

    fill_block(x, &shape, (enum fill)_i, 1);
    for (size_t i = 0; i < n; i++)
        x[i] *= 1.001f;
    d_x = both_inout(x, n * sizeof *x);
    kvr_round_bf16_cuda(both_stream, d_x, (int64_t)n);
    both_get(got, d_x, n * sizeof *got, fill_names[_i]);
    for (size_t i = 0; i < n; i++) {
        const float want = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));

        if (!same(want, got[i]))
            ck_abort_msg("%s: %a: %a, %a", fill_names[_i], (double)x[i], (double)want,
                         (double)got[i]);
    }
    both_free();
    free(x);
    free(got);
}
END_TEST

TCase *cases_rows(void)
{
    TCase *tc = tcase_create("rows");

    tcase_add_loop_test(tc, moves, 0, 3 * (int)(sizeof widths / sizeof *widths));
    tcase_add_loop_test(tc, rounding, 0, N_FILLS);
    return tc;
}
