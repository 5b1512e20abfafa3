/* cases_codec.c - integer grids, the Walsh-Hadamard transform and the codec `raw`: CPU against
 * CUDA.
 *
 * Packed bytes must be equal, and so must decoded values, except for NaN payloads. The kernels
 * perform the CPU's operations in the CPU's order, and round each once, without contraction. IEEE
 * division and square root are correctly rounded. So there is no tolerance. */
#include "methods/codecs/hadamard/fwht.h"
#include "methods/codecs/raw/raw_cuda.h"
#include "methods/codecs/grid/grid_cuda.h"
#include "methods/codecs/hadamard/fwht_cuda.h"
#include "tests/cuda/both.h"

/* Group axes and group sizes that use different code paths. Groups are shorter and longer than a
 * warp, and than the channels that a CTA encodes at once. Some numbers of tokens are not multiples
 * of 8, so packed codes end within a byte. */
struct axis_case {
    enum kvr_group_axis axis;
    int group;
    struct kvr_block_shape shape;
};
static const struct axis_case axes[] = {
    { KVR_AXIS_TOKENS, 16, { 37, 2, 32 } },    { KVR_AXIS_TOKENS, 8, { 21, 1, 16 } },
    { KVR_AXIS_TOKENS, 64, { 70, 3, 8 } },     { KVR_AXIS_CHANNELS, 8, { 13, 2, 24 } },
    { KVR_AXIS_CHANNELS, 16, { 9, 3, 128 } },  { KVR_AXIS_CHANNELS, 64, { 17, 1, 64 } },
    { KVR_AXIS_CHANNELS, 512, { 3, 1, 512 } }, { KVR_AXIS_TOKEN, 16, { 11, 3, 20 } },
    { KVR_AXIS_TOKEN, 16, { 5, 5, 64 } },      { KVR_AXIS_TOKENS, 16, { 1, 1, 1 } },
    { KVR_AXIS_TOKENS, 16, { 20, 1, 6 } },     { KVR_AXIS_TOKEN, 16, { 9, 3, 5 } },
    { KVR_AXIS_CHANNELS, 9, { 9, 2, 18 } },    { KVR_AXIS_TOKEN, 16, { 24, 3, 20 } },
};
enum { N_AXES = sizeof axes / sizeof axes[0] };

/* Values of (bits, asym, study, compute): every bit width. The widths that methods use have both
 * versions of the formulas: intended, and as the 33-method study implemented them. */
static const struct {
    int bits;
    bool asym, study;
    enum kvr_compute compute;
} readings[] = {
    { 2, false, false, KVR_COMPUTE_F32 }, { 2, false, true, KVR_COMPUTE_F32 },
    { 2, false, true, KVR_COMPUTE_BF16 }, { 4, false, false, KVR_COMPUTE_BF16 },
    { 4, false, true, KVR_COMPUTE_BF16 }, { 2, true, false, KVR_COMPUTE_F32 },
    { 2, true, true, KVR_COMPUTE_BF16 },  { 4, true, true, KVR_COMPUTE_F32 },
    { 4, true, false, KVR_COMPUTE_BF16 }, { 3, false, false, KVR_COMPUTE_F32 },
    { 5, true, true, KVR_COMPUTE_F32 },   { 6, false, true, KVR_COMPUTE_F32 },
    { 7, true, false, KVR_COMPUTE_F32 },  { 8, false, false, KVR_COMPUTE_F32 },
    { 8, true, true, KVR_COMPUTE_BF16 },
};
enum { N_READINGS = sizeof readings / sizeof readings[0] };

static void same_floats(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!same(a[i], b[i]))
            ck_abort_msg("%s: element %zu: %a on the CPU, %a on CUDA", what, i, (double)a[i],
                         (double)b[i]);
}

struct coded {
    struct kvr_grid g;
    struct kvr_stage_job job;
    struct kvr_stage_bytes bytes;
    struct kvr_stage_data cpu, gpu; /* host memory */
};

/* Decodes tokens [t0, t0 + n) of heads [h0, h0 + nh) from the other backend's packed block. */
static void check_decode(const struct coded *c, int64_t t0, int64_t n, int h0, int nh,
                         enum kvr_decode_mode mode, const char *what)
{
    const size_t size = (size_t)(n * nh * c->job.shape.head_dim);
    float *want = floats(size), *from_gpu = floats(size), *got = floats(size);
    float *d_out;

    for (size_t i = 0; i < size; i++)
        want[i] = from_gpu[i] = (float)(i % 7) - 3;
    d_out = mode == KVR_DECODE_SET ? both_out(size * sizeof *want)
                                   : both_inout(want, size * sizeof *want);
    kvr_grid_decode(&c->g, &c->job, &c->cpu, t0, n, h0, nh, mode, want);
    kvr_grid_decode(&c->g, &c->job, &c->gpu, t0, n, h0, nh, mode, from_gpu);
    same_floats(want, from_gpu, size, what);
    kvr_grid_decode_cuda(both_stream, &c->g, &c->job, both_in(c->cpu.codes.p, c->bytes.codes),
                         both_in(c->cpu.meta.p, c->bytes.meta), t0, n, h0, nh, mode, d_out);
    both_get(got, d_out, size * sizeof *got, what);
    same_floats(want, got, size, what);
    both_free();
    free(want);
    free(from_gpu);
    free(got);
}

static void check_grid(const struct axis_case *a, int r, enum fill fill)
{
    struct coded c = {
        .g = { .bits = readings[r].bits,
               .axis = a->axis,
               .group = a->group,
               .asym = readings[r].asym },
        .job = { .study = readings[r].study, .compute = readings[r].compute, .shape = a->shape },
    };
    const size_t n = elements(&a->shape);
    const int64_t T = a->shape.n_tok;
    struct kvr_dev *dev = open_dev();
    float *x = floats(n);
    struct kvr_layout layout;
    void *codes, *meta;
    char what[128];

    snprintf(what, sizeof what, "%s %d bits, axis %s, group %d, %s%s, %s",
             c.g.asym ? "asym" : "sym", c.g.bits, kvr_axis_names[a->axis], a->group,
             c.job.study ? "study" : "intended", c.job.compute == KVR_COMPUTE_BF16 ? " bf16" : "",
             fill_names[fill]);
    fill_block(x, &a->shape, fill, (uint32_t)r);
    kvr_grid_layout(&c.g, &c.job, &layout);
    c.bytes = layout.bytes;
    for (int i = 0; i < 2; i++) {
        struct kvr_stage_data *d = i ? &c.gpu : &c.cpu;

        ck_assert_int_eq(kvr_buf_alloc(&d->codes, dev, KVR_MEM_KV, c.bytes.codes), KVR_OK);
        ck_assert_int_eq(kvr_buf_alloc(&d->meta, dev, KVR_MEM_META, c.bytes.meta), KVR_OK);
    }
    kvr_grid_encode(&c.g, &c.job, x, &c.cpu);
    codes = both_out(c.bytes.codes);
    meta = both_out(c.bytes.meta);
    kvr_grid_encode_cuda(both_stream, &c.g, &c.job, both_in(x, n * sizeof *x), codes, meta);
    both_get(c.gpu.codes.p, codes, c.bytes.codes, what);
    both_get(c.gpu.meta.p, meta, c.bytes.meta, what);
    both_free();
    ck_assert_msg(!memcmp(c.cpu.meta.p, c.gpu.meta.p, c.bytes.meta), "%s: steps differ", what);
    ck_assert_msg(!memcmp(c.cpu.codes.p, c.gpu.codes.p, c.bytes.codes), "%s: codes differ", what);
    check_decode(&c, 0, T, 0, a->shape.n_heads, KVR_DECODE_SET, what);
    check_decode(&c, T / 3, (T + 2) / 3, a->shape.n_heads / 2, 1,
                 r % 2 ? KVR_DECODE_ADD : KVR_DECODE_SUB, what);
    kvr_buf_free(&c.cpu.codes);
    kvr_buf_free(&c.cpu.meta);
    kvr_buf_free(&c.gpu.codes);
    kvr_buf_free(&c.gpu.meta);
    kvr_dev_close(&dev);
    free(x);
}

START_TEST(grid)
{
    const struct axis_case *a = &axes[_i / N_READINGS];

    for (int fill = 0; fill < N_FILLS; fill++)
        check_grid(a, _i % N_READINGS, (enum fill)fill);
}
END_TEST

/* Copies the device's data to the host. */
static void fetch(struct kvr_stage_data *host, void *codes, void *meta, const char *what)
{
    both_get(host->codes.p, codes, host->codes.n_bytes, what);
    both_get(host->meta.p, meta, host->meta.n_bytes, what);
}

static void alloc_data(struct kvr_stage_data *d, struct kvr_dev *dev,
                       const struct kvr_stage_bytes *bytes)
{
    ck_assert_int_eq(kvr_buf_alloc(&d->codes, dev, KVR_MEM_KV, bytes->codes), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&d->meta, dev, KVR_MEM_META, bytes->meta), KVR_OK);
}

static void free_data(struct kvr_stage_data *d)
{
    kvr_buf_free(&d->codes);
    kvr_buf_free(&d->meta);
}

/* Encodes a block on the CPU, one grid stage after the other. cpu[i] receives the output of grid
 * i. */
static void code_chain(const struct kvr_grid_chain *c, float *x, struct kvr_stage_data *cpu)
{
    const struct kvr_block_shape *s = &c->job[0].shape;

    if (c->rotate)
        kvr_fwht(x, s->n_tok * s->n_heads, s->head_dim, c->rotate_compute);
    for (int i = 0; i < c->n; i++) {
        struct kvr_stage_job f32 = c->job[i];

        kvr_grid_encode(&c->grid[i], &c->job[i], x, &cpu[i]);
        f32.compute = KVR_COMPUTE_F32;
        kvr_grid_decode(&c->grid[i], &f32, &cpu[i], 0, s->n_tok, 0, s->n_heads, KVR_DECODE_SUB, x);
    }
}

/* Decodes tokens [t0, t0 + n) of the last head on the CPU. */
static void decode_chain(const struct kvr_grid_chain *c, const struct kvr_stage_data *cpu,
                         int64_t t0, int64_t n, float *out)
{
    const struct kvr_block_shape *s = &c->job[0].shape;

    for (int i = 0; i < c->n; i++)
        kvr_grid_decode(&c->grid[i], &c->job[i], &cpu[i], t0, n, s->n_heads - 1, 1,
                        i ? KVR_DECODE_ADD : KVR_DECODE_SET, out);
    for (int64_t i = 0; i < n * s->head_dim && c->round; i++)
        out[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(out[i]));
    if (c->rotate)
        kvr_fwht(out, n, s->head_dim, c->rotate_compute);
}

static void check_chain(struct kvr_grid_chain *c, enum fill fill)
{
    const struct kvr_block_shape *shape = &c->job[0].shape;
    const size_t n = elements(shape);
    const int64_t t0 = shape->n_tok / 3, part = shape->n_tok / 2;
    const size_t some = (size_t)part * (size_t)shape->head_dim;
    const struct kvr_stage_data *given[2] = { NULL, NULL };
    struct kvr_stage_data cpu[2] = { 0 }, gpu[2] = { 0 }, device[2] = { 0 };
    struct kvr_dev *dev = open_dev();
    float *x = floats(n), *work = floats(n), *got = floats(n), *d_x, *d_out;

    fill_block(x, shape, fill, 3);
    memcpy(work, x, n * sizeof *x);
    for (int i = 0; i < c->n; i++) {
        struct kvr_layout layout;

        kvr_grid_layout(&c->grid[i], &c->job[i], &layout);
        alloc_data(&cpu[i], dev, &layout.bytes);
        alloc_data(&gpu[i], dev, &layout.bytes);
        device[i].codes.p = both_out(layout.bytes.codes);
        device[i].meta.p = both_out(layout.bytes.meta);
        given[i] = &device[i];
    }
    code_chain(c, work, cpu);
    d_x = both_inout(x, n * sizeof *x);
    ck_assert(kvr_chain_encode_cuda(both_stream, c, &(struct kvr_values){ .p = d_x }, given));
    both_get(got, d_x, n * sizeof *x, fill_names[fill]);
    ck_assert_mem_eq(got, x, n * sizeof *x);
    for (int i = 0; i < c->n; i++) {
        fetch(&gpu[i], device[i].codes.p, device[i].meta.p, fill_names[fill]);
        ck_assert_mem_eq(gpu[i].meta.p, cpu[i].meta.p, cpu[i].meta.n_bytes);
        ck_assert_mem_eq(gpu[i].codes.p, cpu[i].codes.p, cpu[i].codes.n_bytes);
        /* Chains of two grids are decoded in F32, also if they are encoded in BF16. */
        c->job[i].compute = c->n > 1 ? KVR_COMPUTE_F32 : c->job[i].compute;
    }
    decode_chain(c, cpu, t0, part, work);
    d_out = both_out(some * sizeof *got);
    ck_assert(kvr_chain_decode_cuda(both_stream, c, given, t0, part, shape->n_heads - 1, 1, d_out));
    both_get(got, d_out, some * sizeof *got, fill_names[fill]);
    same_floats(work, got, some, fill_names[fill]);
    both_free();
    for (int i = 0; i < c->n; i++) {
        free_data(&cpu[i]);
        free_data(&gpu[i]);
    }
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(got);
}

static struct kvr_grid_chain chain_for(int r, const struct kvr_block_shape *shape)
{
    return (struct kvr_grid_chain){
        .n = 1,
        .grid[0] = { readings[r].bits, KVR_AXIS_TOKENS, 16, readings[r].asym },
        .job[0] = { .study = readings[r].study, .compute = readings[r].compute, .shape = *shape },
    };
}

/* Head widths at which a warp processes one head: 32, 64 and 128 channels. */
START_TEST(transform_and_grid)
{
    static const struct kvr_block_shape shapes[] = { { 37, 2, 32 }, { 21, 2, 64 }, { 18, 2, 128 } };
    const int r = _i % N_READINGS;

    for (int fill = 0; fill < N_FILLS; fill++) {
        struct kvr_grid_chain c = chain_for(r, &shapes[_i / N_READINGS]);

        c.rotate = true;
        c.rotate_compute = readings[r].compute;
        check_chain(&c, (enum fill)fill);
    }
}
END_TEST

START_TEST(two_grids)
{
    static const struct kvr_block_shape shape = { 37, 3, 20 };

    for (int fill = 0; fill < N_FILLS; fill++) {
        struct kvr_grid_chain c = chain_for(_i, &shape);

        c.n = 2;
        c.grid[1] = (struct kvr_grid){ 2 + _i % 7, KVR_AXIS_TOKENS, 16, _i % 3 == 0 };
        c.job[1] = c.job[0];
        c.job[1].compute = KVR_COMPUTE_F32;
        c.round = readings[_i].compute == KVR_COMPUTE_BF16;
        check_chain(&c, (enum fill)fill);
    }
}
END_TEST

/* Unsupported chains of stages are refused without a launch. */
START_TEST(chains_refused)
{
    static const struct kvr_stage_data none = { 0 };
    static const struct kvr_stage_data *const data[2] = { &none, &none };
    const struct kvr_block_shape wide = { 16, 1, 256 }, fits = { 16, 1, 64 }, odd = { 16, 1, 6 };
    struct kvr_grid_chain c = chain_for(0, &wide);

    c.rotate = true;
    ck_assert(!kvr_chain_encode_cuda(both_stream, &c, &(struct kvr_values){ 0 }, data));
    ck_assert(!kvr_chain_decode_cuda(both_stream, &c, data, 0, 16, 0, 1, NULL));
    c = chain_for(0, &fits);
    c.rotate = true;
    c.grid[0].group = 8;
    ck_assert(!kvr_chain_encode_cuda(both_stream, &c, &(struct kvr_values){ 0 }, data));
    c.grid[0] = (struct kvr_grid){ 4, KVR_AXIS_TOKEN, 16, false };
    ck_assert(!kvr_chain_encode_cuda(both_stream, &c, &(struct kvr_values){ 0 }, data));
    c = chain_for(0, &odd);
    c.n = 2;
    c.grid[1] = c.grid[0];
    c.job[1] = c.job[0];
    ck_assert(!kvr_chain_encode_cuda(both_stream, &c, &(struct kvr_values){ 0 }, data));
}
END_TEST

/* same() accepts two NaNs, but not a NaN and a number. Otherwise the tests above could not fail. */
START_TEST(comparison_can_fail)
{
    const float a[2] = { 1, NAN }, b[2] = { 1, NAN }, c[2] = { 1, 2 };

    ck_assert(same(a[0], b[0]) && same(a[1], b[1]));
    ck_assert(!same(a[1], c[1]) && !same(c[1], a[1]));
}
END_TEST

static const int widths[] = { 2, 8, 16, 32, 64, 128, 256, 512, 1024 };

START_TEST(transform)
{
    const enum kvr_compute compute = _i % 2 ? KVR_COMPUTE_BF16 : KVR_COMPUTE_F32;
    const struct kvr_block_shape shape = { 3, 3, widths[_i / 2] };
    const size_t n = elements(&shape);
    float *x = floats(n), *y = floats(n), *d_x;

    for (int fill = 0; fill < N_FILLS; fill++) {
        fill_block(x, &shape, (enum fill)fill, 3);
        d_x = both_inout(x, n * sizeof *x);
        kvr_fwht(x, 9, shape.head_dim, compute);
        kvr_fwht_cuda(both_stream, d_x, 9, shape.head_dim, compute);
        both_get(y, d_x, n * sizeof *y, fill_names[fill]);
        same_floats(x, y, n, fill_names[fill]);
        both_free();
    }
    free(x);
    free(y);
}
END_TEST

/* The codec `raw` in BF16 and in F32. BF16 codes have the CPU's bytes, including NaNs. Tokens 5 to
 * 8 of heads 1 and 2 decode to the CPU's values. */
START_TEST(exact)
{
    /* Widths with one element per thread (19) and with eight (24). */
    const struct kvr_block_shape shape = { 11, 3, _i / 2 % 2 ? 24 : 19 };
    const size_t n = elements(&shape);
    const enum fill fill = (enum fill)(_i / 4);
    const bool f32 = _i % 2;
    struct kvr_codec *c = open_codec(f32 ? "raw(type=f32)" : "raw", KVR_V, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed packed;
    float *x = floats(n), *work = floats(n), *want = floats(n), *got = floats(n), *d_out;
    kvr_bf16 *codes = malloc(n * sizeof *codes);
    const size_t part = 4 * 2 * (size_t)shape.head_dim;

    fill_block(x, &shape, fill, 1);
    /* Values that BF16 cannot represent. */
    for (size_t i = 0; i < n; i++)
        x[i] *= 1.001f;
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, &shape, work, &packed), KVR_OK);
    if (!f32) {
        kvr_bf16 *d_codes = both_out(n * sizeof *codes);

        kvr_raw_encode_cuda(both_stream, &shape, both_in(x, n * sizeof *x), d_codes);
        both_get(codes, d_codes, n * sizeof *codes, fill_names[fill]);
        ck_assert_mem_eq(codes, packed.stage[0].codes.p, n * sizeof *codes);
    }
    kvr_codec_decode(&packed, 5, 4, 1, 2, want);
    d_out = both_out(part * sizeof *want);
    kvr_raw_decode_cuda(both_stream, &shape, f32 ? KVR_F32 : KVR_BF16,
                        both_in(packed.stage[0].codes.p, packed.stage[0].codes.n_bytes), 5, 4, 1, 2,
                        d_out);
    both_get(got, d_out, part * sizeof *got, fill_names[fill]);
    same_floats(want, got, part, fill_names[fill]);
    both_free();
    kvr_packed_free(&packed);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
    free(want);
    free(got);
    free(codes);
}
END_TEST

TCase *cases_codec(void)
{
    TCase *tc = tcase_create("codec");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, grid, 0, N_AXES * N_READINGS);
    tcase_add_loop_test(tc, transform_and_grid, 0, 3 * N_READINGS);
    tcase_add_loop_test(tc, two_grids, 0, N_READINGS);
    tcase_add_test(tc, chains_refused);
    tcase_add_test(tc, comparison_can_fail);
    tcase_add_loop_test(tc, transform, 0, 2 * 9);
    tcase_add_loop_test(tc, exact, 0, 4 * N_FILLS);
    return tc;
}
