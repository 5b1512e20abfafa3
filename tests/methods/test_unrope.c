/* test_unrope.c - keys coded before RoPE: the codec undoes and restores the model's rotation,
 * which lowers the error. */
#include "tests/methods/codec_tools.h"

#include "methods/codecs/unrope/unrope.h"
#include "methods/corrections/correction.h"
#include "methods/kernels/rope.h"
#include "tests/suite.h"

enum { S = 12, ROW = 4, T = 41, H = 2 };

/* Lists T token indices in ascending order, with gaps. */
static void scatter(int32_t list[T])
{
    for (int t = 0; t < T; t++)
        list[t] = 5 * t + t % 3;
}

/* Rotates x [T,H,D] as a model with this head width does. */
static void rotate(float *x, int head_dim, const struct kvr_place *place)
{
    double cosines[UNROPE_MAX_PAIRS], sines[UNROPE_MAX_PAIRS];

    for (int64_t t = 0; t < T; t++) {
        const int64_t token = place->list ? place->list[t] : place->tok0 + t;
        const int in_frame = (int)(token % S);

        kvr_rope_angles(head_dim, (int)(token / S), in_frame / ROW, in_frame % ROW, cosines, sines);
        for (int h = 0; h < H; h++, x += head_dim)
            kvr_rope_rotate(x, head_dim, cosines, sines, false, x);
    }
}

/* Error of two rotations in FP32: 3e-7 of a channel pair's length, which is at most 6 here. */
static const float turned_twice = 2e-6f;

/* The codes hold keys as they were before the model's rotation, and decoding restores the rotated
 * keys. The tokens are consecutive from token 0, from frame 1000, from the middle of a frame (token
 * 7), or listed with gaps. */
START_TEST(the_models_rotation_is_undone)
{
    static const int widths[] = { 10, 16, 64, 128 };
    int32_t list[T];
    const struct kvr_place places[] = { { .frame_tokens = S },
                                        { .frame_tokens = S, .tok0 = 1000 * S },
                                        { .frame_tokens = S, .tok0 = 7 },
                                        { .frame_tokens = S, .list = list } };
    const struct kvr_place *place = &places[_i / 4];
    const struct kvr_block_shape s = { T, H, widths[_i % 4] };
    float *before = floats(elements(&s)), *x = floats(elements(&s));
    const float *codes;
    struct placed t;

    scatter(list);
    fill_block(before, &s, FILL_NORMAL, 3);
    memcpy(x, before, elements(&s) * sizeof *x);
    rotate(x, s.head_dim, place);
    placed_open(&t, "unrope(row=4) | raw(type=f32)", &s, place, x);
    codes = t.packed.stage[1].codes.p;
    for (size_t i = 0; i < elements(&s); i++) {
        ck_assert_msg(fabsf(codes[i] - before[i]) <= turned_twice, "%g became %g",
                      (double)before[i], (double)codes[i]);
        ck_assert_msg(fabsf(t.back[i] - x[i]) <= turned_twice, "%g reads %g", (double)x[i],
                      (double)t.back[i]);
    }
    /* Decoding one token of one head must give the same values as decoding the whole block. */
    for (int64_t i = 0; i < T; i += 3) {
        float part[128];

        kvr_codec_decode(&t.packed, i, 1, 1, 1, part);
        ck_assert_mem_eq(part, t.back + (i * H + 1) * s.head_dim,
                         (size_t)s.head_dim * sizeof *part);
    }
    placed_close(&t);
    free(before);
    free(x);
}
END_TEST

START_TEST(unknown_positions_are_not_rotated)
{
    const struct kvr_block_shape s = { T, H, 64 };
    float *x = floats(elements(&s));
    struct placed t;

    fill_block(x, &s, FILL_NORMAL, 3);
    placed_open(&t, "unrope | raw(type=f32)", &s, &(struct kvr_place){ 0 }, x);
    ck_assert_mem_eq(t.packed.stage[1].codes.p, x, elements(&s) * sizeof *x);
    ck_assert_mem_eq(t.back, x, elements(&s) * sizeof *x);
    placed_close(&t);
    free(x);
}
END_TEST

/* KVQuant's motivation: channels that hardly vary before the rotation have a small error when
 * each is quantized per channel. */
START_TEST(steady_channels_stay_steady)
{
    static const struct kvr_place place = { .frame_tokens = S };
    static const char *const text[] = { "asym(bits=2,group=41)",
                                        "unrope(row=4) | asym(bits=2,group=41)" };
    const struct kvr_block_shape s = { T, H, 64 };
    float *x = floats(elements(&s)), steady[H * 64];
    double error[2];

    fill_block(x, &s, FILL_NORMAL, 3);
    kvr_normal(steady, H * 64, 4, KVR_RNG_TEST, 9, 0, 0);
    for (size_t i = 0; i < elements(&s); i++)
        x[i] = 0.1f * x[i] + 4 * steady[i % (H * 64)];
    rotate(x, s.head_dim, &place);
    for (int k = 0; k < 2; k++) {
        struct placed t;

        placed_open(&t, text[k], &s, &place, x);
        error[k] = squared_error(t.back, x, elements(&s));
        placed_close(&t);
    }
    ck_assert_msg(error[1] <= 0.1 * error[0], "%g before the rotation, %g after", error[1],
                  error[0]);
    free(x);
}
END_TEST

/* The stage's cosines and sines equal the library's within 1e-9, for the angles of any position
 * below 2^20, near every quarter turn and elsewhere. */
START_TEST(angles_are_the_librarys)
{
    for (int i = 0; i < 200000; i++) {
        const double angle = i < 100000 ? i * 1e-4 : (i - 100000) * 10.4857;
        double c, s;

        unrope_angle(angle, &c, &s);
        ck_assert_msg(fabs(c - cos(angle)) <= 1e-9 && fabs(s - sin(angle)) <= 1e-9,
                      "%g: %.12g %.12g", angle, c, s);
    }
}
END_TEST

START_TEST(rows_that_do_not_divide_a_frame)
{
    static const char *const text[] = { "unrope(row=5) | sym", "cube(row=5) | sym" };
    const struct kvr_place place = { .frame_tokens = S, .whole = true };
    const struct kvr_block_shape s = { 2 * S, H, 32 };
    float *x = floats(elements(&s)), *work = floats(elements(&s));
    struct kvr_codec *c = open_codec(text[_i], KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_dev *dev = open_dev();
    struct kvr_packed p;

    ck_assert_int_eq(kvr_codec_encode_at(c, dev, x, &s, &place, work, &p), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(
        strstr(kvr_error(), "row is 5 tokens, but must divide the 12 tokens of a frame"));
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    free(x);
    free(work);
}
END_TEST

START_TEST(values_and_wide_heads_are_refused)
{
    struct kvr_codec *k = open_codec("unrope | sym", KVR_K, false, KVR_COMPUTE_F32);
    struct kvr_codec *v = open_codec("unrope | sym", KVR_V, false, KVR_COMPUTE_F32);
    struct kvr_coding_noise noise;

    ck_assert_int_eq(kvr_codec_check(k, 2, 256), KVR_OK);
    ck_assert_int_eq(kvr_codec_check(k, 2, 258), KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_codec_check(v, 2, 64), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "values have no rotary embedding"));
    /* Decoding rotates the quantizer's error together with the key, so the quantizer's noise model
     * does not apply. The stage must report KVR_NOISE_MEASURED. */
    kvr_codec_noise(&(struct kvr_packed){ .codec = k, .shape = { 0, 1, 1 } }, &noise);
    ck_assert_int_eq(noise.kind, KVR_NOISE_MEASURED);
    kvr_codec_close(&k);
    /* It must report KVR_NOISE_MEASURED also if one channel of a pair may be an exact outlier. */
    k = open_codec("unrope | outliers | asym(axis=channels,group=32)", KVR_K, false,
                   KVR_COMPUTE_F32);
    kvr_codec_noise(&(struct kvr_packed){ .codec = k, .shape = { 0, 1, 1 } }, &noise);
    ck_assert_int_eq(noise.kind, KVR_NOISE_MEASURED);
    kvr_codec_close(&k);
    kvr_codec_close(&v);
}
END_TEST

/* The correction `taylor` sums q_c^2 s_c^2 over the channels c of a query q with key scales s. If
 * the two channels of a RoPE pair share a scale, the sum does not change when the query is rotated
 * back to the key's position. Each product rounds by 2^-24. */
START_TEST(sums_of_pairs_are_rotation_invariant)
{
    static const char *const text[] = { "unrope(row=4) | ints(bits=2,group=16,zero=f16)",
                                        "unrope(row=4) | asym(bits=2,axis=channels,group=32)" };
    static const struct kvr_place place = { .frame_tokens = S };
    const struct kvr_block_shape s = { T, H, 64 };
    float *x = floats(elements(&s)), *q = floats(elements(&s)), *back = floats(elements(&s));
    float squared[64];
    struct kvr_coding_noise noise;
    struct placed t;

    fill_block(x, &s, FILL_NORMAL, 3);
    fill_block(back, &s, FILL_NORMAL, 5);
    memcpy(q, back, elements(&s) * sizeof *q);
    rotate(q, s.head_dim, &place);
    placed_open(&t, text[_i], &s, &place, x);
    kvr_codec_noise(&t.packed, &noise);
    ck_assert(noise.rope_rotated && noise.axis == KVR_AXIS_CHANNELS);
    for (int64_t i = 0; i < T * H; i++) {
        double as_is = 0, turned_back = 0;

        kvr_squared_scales(&t.packed, (int)(i % H), i / H, 1, squared);
        for (int c = 0; c < 64; c++) {
            as_is += (double)squared[c] * (double)q[i * 64 + c] * (double)q[i * 64 + c];
            turned_back += (double)squared[c] * (double)back[i * 64 + c] * (double)back[i * 64 + c];
        }
        ck_assert_msg(turned_back > 0 && fabs(as_is / turned_back - 1) <= 64 * 0x1p-24,
                      "%g, turned back %g", as_is, turned_back);
    }
    placed_close(&t);
    free(x);
    free(q);
    free(back);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unrope");
    TCase *tc = tcase_create("unrope");

    tcase_add_loop_test(tc, the_models_rotation_is_undone, 0, 16);
    tcase_add_test(tc, unknown_positions_are_not_rotated);
    tcase_add_test(tc, steady_channels_stay_steady);
    tcase_add_test(tc, angles_are_the_librarys);
    tcase_add_loop_test(tc, rows_that_do_not_divide_a_frame, 0, 2);
    tcase_add_test(tc, values_and_wide_heads_are_refused);
    tcase_add_loop_test(tc, sums_of_pairs_are_rotation_invariant, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
