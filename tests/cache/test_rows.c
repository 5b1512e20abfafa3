/* test_rows.c - the functions of rows.h give the same bits on both backends. */
#include "harness/cache/rows.h"
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

/* LISTED of ROWS rows are selected by absolute token index; the first row is token TOK0. */
enum { ROWS = 19, TOK0 = 7, LISTED = 6 };
static const int32_t list[LISTED] = { 7, 9, 10, 15, 24, 25 };
/* rows of 32 and of 520 floats are multiples of 16 bytes */
static const size_t widths[] = { 1, 6, 32, 520 };

struct side {
    struct kvr_dev *dev;
    struct kvr_buf x, list, out;
};

static void open_side(struct side *s, enum kvr_backend backend, const float *x, size_t width)
{
    *s = (struct side){ 0 };
    ck_assert_msg(kvr_dev_open(&s->dev, backend) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_buf_alloc(&s->x, s->dev, KVR_MEM_SCRATCH, ROWS * width * sizeof(float)),
                     KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&s->list, s->dev, KVR_MEM_META, sizeof list), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&s->out, s->dev, KVR_MEM_SCRATCH, ROWS * width * sizeof(float)),
                     KVR_OK);
    ck_assert_int_eq(kvr_dev_put(s->dev, s->x.p, x, ROWS * width * sizeof *x), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(s->dev, s->list.p, list, sizeof list), KVR_OK);
    kvr_dev_zero(s->dev, s->out.p, s->out.n_bytes);
}

static void close_side(struct side *s)
{
    kvr_buf_free(&s->x);
    kvr_buf_free(&s->list);
    kvr_buf_free(&s->out);
    kvr_dev_close(&s->dev);
}

typedef void action(struct side *s, size_t width);

static void gather(struct side *s, size_t width)
{
    kvr_rows_gather(s->dev, s->x.p, width, s->list.p, LISTED, TOK0, s->out.p);
}

static void scatter(struct side *s, size_t width)
{
    kvr_rows_scatter(s->dev, s->x.p, width, s->list.p, LISTED, TOK0, s->out.p);
}

static void repeat(struct side *s, size_t width)
{
    kvr_rows_repeat(s->dev, (const float *)s->x.p + 2 * width, width, ROWS, s->out.p);
}

static void mean(struct side *s, size_t width)
{
    kvr_rows_mean(s->dev, s->x.p, width, ROWS, s->out.p);
}

static void to_and_from_bf16(struct side *s, size_t width)
{
    kvr_values_from_f32(s->dev, s->out.p, KVR_BF16, s->x.p, ROWS * width);
    kvr_values_to_f32(s->dev, s->x.p, s->out.p, KVR_BF16, ROWS * width);
    kvr_dev_copy(s->dev, s->out.p, s->x.p, ROWS * width * sizeof(float));
}

static void to_and_from_f32(struct side *s, size_t width)
{
    kvr_values_from_f32(s->dev, s->out.p, KVR_F32, s->x.p, ROWS * width);
    kvr_dev_zero(s->dev, s->x.p, ROWS * width * sizeof(float));
    kvr_values_to_f32(s->dev, s->x.p, s->out.p, KVR_F32, ROWS * width);
    kvr_values_round(s->dev, KVR_F32, s->out.p, ROWS * width); /* F32 to F32 changes nothing */
}

static void round_to_bf16(struct side *s, size_t width)
{
    kvr_dev_copy(s->dev, s->out.p, s->x.p, ROWS * width * sizeof(float));
    kvr_values_round(s->dev, KVR_BF16, s->out.p, ROWS * width);
}

static const struct {
    const char *name;
    action *act;
} actions[] = {
    { "gather", gather },
    { "scatter", scatter },
    { "repeat", repeat },
    { "mean", mean },
    { "bf16 and back", to_and_from_bf16 },
    { "f32 and back", to_and_from_f32 },
    { "round", round_to_bf16 },
};
enum { N_ACTIONS = sizeof actions / sizeof *actions, N_WIDTHS = sizeof widths / sizeof *widths };

START_TEST(backends_agree)
{
    const size_t width = widths[_i / N_ACTIONS % N_WIDTHS], n = ROWS * width;
    const enum fill fill = (enum fill)(_i / (N_ACTIONS * (int)N_WIDTHS));
    const struct kvr_block_shape shape = { ROWS, 1, (int)width };
    float *x = floats(n), *want = floats(n), *got = floats(n);
    struct side cpu, cuda;

    fill_block(x, &shape, fill, 3);
    /* BF16 cannot represent the products, so rounding has an effect. */
    for (size_t i = 0; i < n; i++)
        x[i] *= 1.001f;
    open_side(&cpu, KVR_CPU, x, width);
    open_side(&cuda, KVR_CUDA, x, width);
    actions[_i % N_ACTIONS].act(&cpu, width);
    actions[_i % N_ACTIONS].act(&cuda, width);
    ck_assert_msg(kvr_dev_sync(cuda.dev) == KVR_OK, "%s", kvr_error());
    memcpy(want, cpu.out.p, n * sizeof *want);
    ck_assert_int_eq(kvr_dev_get(cuda.dev, got, cuda.out.p, n * sizeof *got), KVR_OK);
    for (size_t i = 0; i < n; i++)
        if (!same(want[i], got[i]))
            ck_abort_msg("%s, %s, width %zu: %zu: %a on the CPU, %a on CUDA",
                         actions[_i % N_ACTIONS].name, fill_names[fill], width, i, (double)want[i],
                         (double)got[i]);
    close_side(&cpu);
    close_side(&cuda);
    free(x);
    free(want);
    free(got);
}
END_TEST

/* Checks each function against a result worked out by hand. */
START_TEST(meaning)
{
    const float x[4] = { 1, 2, 30, 40 }; /* two rows of two values */
    const int32_t second[] = { 101 };
    struct kvr_dev *dev = open_dev();
    float out[6] = { 0 };

    kvr_rows_gather(dev, x, 2, second, 1, 100, out);
    ck_assert(out[0] == 30 && out[1] == 40 && out[2] == 0);
    kvr_rows_scatter(dev, x, 2, second, 1, 100, out);
    ck_assert(out[0] == 30 && out[2] == 1 && out[3] == 2);
    kvr_rows_repeat(dev, x, 2, 3, out);
    ck_assert(out[0] == 1 && out[3] == 2 && out[4] == 1 && out[5] == 2);
    kvr_rows_mean(dev, x, 2, 2, out);
    ck_assert(out[0] == 15.5f && out[1] == 21);
    kvr_dev_close(&dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rows");
    TCase *tc = tcase_create("rows");

    tcase_add_test(tc, meaning);
    tcase_add_loop_test(tc, backends_agree, 0, N_ACTIONS * (int)N_WIDTHS * N_FILLS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
