/* test_cube.c - the stage `cube`, which subtracts the mean of each cube of neighbouring tokens: the
 * assignment of tokens to cubes, stored bytes, and the residual. */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/cube/cube.h"
#include "methods/method.h"
#include "tests/suite.h"

/* Two frames of 2 x 4 tokens in cubes of 2 frames x 1 row x 2 columns. A cube has two adjacent
 * tokens of a row in the first frame, and the same two in the second. */
START_TEST(worked_example)
{
    static const struct kvr_place place = { .frame_tokens = 8, .whole = true };
    const struct kvr_block_shape s = { 16, 1, 8 };
    static const struct {
        float value;
        uint8_t raw;
    } cube[4] = { { 1, 0x38 }, { -2, 0xc0 }, { 0.4375f, 0x2e }, { 448, 0x7e } };
    static const int of[16] = { 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3 };
    float x[16 * 8];
    struct placed t;

    /* In each cube, half of the values are 1.25 times its mean and half 0.75 times. */
    for (int i = 0; i < 16 * 8; i++)
        x[i] = cube[of[i / 8]].value * (i / 8 % 2 ? 0.75f : 1.25f);
    placed_open(&t, "cube(frames=2,rows=1,cols=2,row=4) | raw(type=f32)", &s, &place, x);
    ck_assert_uint_eq(t.packed.stage[0].meta.n_bytes, 4 * 8);
    for (int i = 0; i < 4 * 8; i++)
        ck_assert_uint_eq(((const uint8_t *)t.packed.stage[0].meta.p)[i], cube[i / 8].raw);
    for (int i = 0; i < 16 * 8; i++) {
        const float left = ((const float *)t.packed.stage[1].codes.p)[i];

        ck_assert_msg(left == x[i] - cube[of[i / 8]].value, "element %d leaves %g", i,
                      (double)left);
        ck_assert(t.back[i] == x[i]);
    }
    placed_close(&t);
}
END_TEST

/* An 8-bit mean per cube of 24 elements adds 1/3 bit. A chunk of Wan has 13 x 15 cubes per
 * channel, without padding. */
START_TEST(a_third_of_a_bit)
{
    const struct kvr_block_shape s = { 3 * 1560, 12, 128 };
    static const struct {
        const char *name;
        double bits;
    } rows[] = { { "CUBE_INT2", 2.25 + 1.0 / 3 }, { "CUBE_INT4", 4.25 + 1.0 / 3 } };
    struct kvr_scheme *p;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(kvr_scheme_open(&p, rows[i].name, NULL, 0) == KVR_OK, "%s", kvr_error());
        for (int known = 0; known < 2; known++) {
            const struct kvr_packed block = { .codec = p->k[0],
                                              .shape = s,
                                              .place = { .frame_tokens = 1560, .whole = known } };
            const struct kvr_stage_bytes b = kvr_packed_nominal(&block);

            ck_assert_uint_eq(b.codes + b.meta, (size_t)(rows[i].bits / 8 * 4680 * 1536 + 0.5));
        }
        /* 2^16 tokens are 2730 cubes of 24 tokens and one of 16. */
        ck_assert(fabs(kvr_scheme_bits(p, 12, 128) - rows[i].bits) <= 1e-4);
        kvr_scheme_close(&p);
    }
}
END_TEST

/* Test blocks: number of tokens, tokens per frame and per row, largest allowed cube (frames, rows,
 * columns), and the expected cube. The stage chooses a cube that divides the block. An expected
 * size of 0 means runs of consecutive tokens, for blocks with partial frames or evicted tokens. */
static const struct {
    int n_tok, frame, row, most[3], size[3];
    bool lost;
} blocks[] = {
    { 48, 16, 4, { 3, 2, 4 }, { 3, 2, 4 }, false }, { 64, 16, 4, { 2, 2, 2 }, { 2, 2, 2 }, false },
    { 30, 15, 5, { 1, 1, 1 }, { 1, 1, 1 }, false }, { 64, 16, 4, { 3, 3, 3 }, { 2, 2, 2 }, false },
    { 60, 30, 6, { 3, 4, 4 }, { 2, 1, 3 }, false }, { 36, 36, 6, { 9, 9, 9 }, { 1, 6, 6 }, false },
    { 48, 16, 4, { 3, 2, 4 }, { 0 }, true },        { 41, 12, 4, { 1, 1, 4 }, { 0 }, false },
    { 7, 16, 4, { 1, 2, 4 }, { 0 }, false },        { 17, 16, 4, { 64, 64, 64 }, { 0 }, false },
};

/* Returns an identifier of the cube of token i, computed from its frame, row and column. If the
 * block is divided into runs of tokens, returns the index of the run. */
static int64_t cube_index_of(int64_t i, int which)
{
    const int *most = blocks[which].most, *size = blocks[which].size;
    const int64_t frame = blocks[which].frame, row = blocks[which].row;

    if (!size[0])
        return i / ((int64_t)most[0] * most[1] * most[2]);
    return (i / frame / size[0] * 1000 + i % frame / row / size[1]) * 1000 + i % row / size[2];
}

/* Each token belongs to the cube that cube_index_of() identifies. The stage rounds the cube's mean
 * to E4M3, with a relative error of at most 1/16. */
START_TEST(every_token_has_its_cube)
{
    const struct kvr_block_shape s = { blocks[_i].n_tok, 2, 8 };
    const struct kvr_place place = { .frame_tokens = blocks[_i].frame, .whole = !blocks[_i].lost };
    const int *most = blocks[_i].most;
    double sum[512][16] = { { 0 } };
    int count[512] = { 0 }, label[64], names = 0;
    int64_t key[512];
    float *x = floats(elements(&s));
    const uint8_t *mean;
    struct placed t;
    char text[128];

    fill_block(x, &s, FILL_OFFSET, 7);
    for (int64_t i = 0; i < s.n_tok; i++) {
        const int64_t of = cube_index_of(i, _i);
        int n = 0;

        while (n < names && key[n] != of)
            n++;
        key[n] = of;
        names += n == names;
        label[i] = n;
        count[n]++;
        for (int e = 0; e < 16; e++)
            sum[n][e] += (double)x[i * 16 + e];
    }
    snprintf(text, sizeof text, "cube(frames=%d,rows=%d,cols=%d,row=%d) | raw(type=f32)", most[0],
             most[1], most[2], blocks[_i].row);
    placed_open(&t, text, &s, &place, x);
    ck_assert_uint_eq(t.packed.stage[0].meta.n_bytes, (size_t)names * 16);
    mean = t.packed.stage[0].meta.p;
    for (int64_t i = 0; i < s.n_tok; i++)
        for (int e = 0; e < 16; e++) {
            const double want = sum[label[i]][e] / count[label[i]];
            const double took = (double)x[i * 16 + e] -
                                (double)((const float *)t.packed.stage[1].codes.p)[i * 16 + e];

            ck_assert_msg(fabs(took - want) <= fabs(want) / 16 + 1e-5, "%s: token %d lost %g of %g",
                          text, (int)i, took, want);
        }
    /* Each stored mean is the mean of some cube. */
    for (int n = 0; n < names * 16; n++) {
        bool found = false;

        for (int64_t i = 0; i < s.n_tok && !found; i++)
            for (int e = 0; e < 16 && !found; e++)
                found = fabs((double)cube_value(mean[n]) - sum[label[i]][e] / count[label[i]]) <=
                        fabs(sum[label[i]][e] / count[label[i]]) / 16;
        ck_assert_msg(found, "%s: mean %d is nobody's", text, n);
    }
    /* Decoding a single token gives the same values as decoding the whole block. */
    for (int64_t i = 0; i < s.n_tok; i++) {
        float part[8];

        kvr_codec_decode(&t.packed, i, 1, 1, 1, part);
        ck_assert_mem_eq(part, t.back + i * 16 + 8, sizeof part);
    }
    placed_close(&t);
    free(x);
}
END_TEST

/* In a video with little motion, neighbouring tokens are similar. With cube means subtracted, the
 * squared error of the same grid must be at most a quarter. */
START_TEST(neighbours_that_are_alike_cost_less)
{
    enum { ROW = 8, FRAME = 64, W = 2 * 32 };
    static const struct kvr_place place = { .frame_tokens = FRAME, .whole = true };
    const struct kvr_block_shape s = { 3 * FRAME, 2, 32 };
    static const char grid[] = "asym(bits=2,axis=channels,group=32)";
    float *x = floats(elements(&s)), wave[W], noise[1];
    struct placed plain, cubes;
    char text[128];

    kvr_normal(wave, W, 3, KVR_RNG_TEST, 1, 0, 0);
    for (int t = 0; t < s.n_tok; t++)
        for (int c = 0; c < W; c++) {
            const double at =
                (double)(t % FRAME / ROW) / 2 + (double)(t % ROW) / 4 + t / FRAME * 0.1;

            kvr_normal(noise, 1, 3, KVR_RNG_TEST, 2, (uint32_t)t, (uint64_t)c);
            x[t * W + c] = 2 * wave[c] + (float)sin(at + 6 * (double)wave[c]) + 0.1f * noise[0];
        }
    snprintf(text, sizeof text, "cube | %s", grid);
    placed_open(&plain, grid, &s, &place, x);
    placed_open(&cubes, text, &s, &place, x);
    ck_assert_msg(squared_error(cubes.back, x, elements(&s)) <=
                      0.25 * squared_error(plain.back, x, elements(&s)),
                  "%g with cubes, %g without", squared_error(cubes.back, x, elements(&s)),
                  squared_error(plain.back, x, elements(&s)));
    placed_close(&plain);
    placed_close(&cubes);
    free(x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cube");
    TCase *tc = tcase_create("cube");

    tcase_add_test(tc, worked_example);
    tcase_add_test(tc, a_third_of_a_bit);
    tcase_add_loop_test(tc, every_token_has_its_cube, 0, (int)(sizeof blocks / sizeof *blocks));
    tcase_add_test(tc, neighbours_that_are_alike_cost_less);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
