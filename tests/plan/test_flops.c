/* test_flops.c - floating-point operations of a rollout, compared with a count by hand for a tiny
 * network and with published numbers for Wan. */
#include "harness/plan/flops.h"

#include <check.h>
#include <math.h>

#include "tests/suite.h"

/* Width 4, one layer, 2 tokens per frame, chunks of 1 frame, one step: 2 passes per chunk.
 * Multiply-adds per pass: projections 6*2*16 = 192, feed-forward 2*2*4*5 = 80, text 2*2*3*4 = 48,
 * patches in and out 2*2*1*4 = 16, attention 2*2*4 = 16 per visible token.
 * Multiply-adds per prompt, for the text MLP and the text's keys and values: 3*7*4 + 3*16 + 2*3*16
 * = 228. */
START_TEST(by_hand)
{
    const struct kvr_model_config c = { .dim = 4,
                                        .ffn_dim = 5,
                                        .text_dim = 7,
                                        .text_len = 3,
                                        .in_dim = 1,
                                        .n_layers = 1,
                                        .n_heads = 1,
                                        .patch_h = 1,
                                        .patch_w = 1,
                                        .latent_h = 1,
                                        .latent_w = 2,
                                        .frames_per_chunk = 1,
                                        .n_steps = 1 };

    ck_assert(kvr_rollout_flop(&c, 1, 0) == 2 * (228 + 2 * (336 + 16 * 2)));
    ck_assert(kvr_rollout_flop(&c, 3, 0) == 2 * (228 + 2 * (3 * 336 + 16 * (2 + 4 + 6))));
    ck_assert(kvr_rollout_flop(&c, 3, 2) == 2 * (228 + 2 * (3 * 336 + 16 * (2 + 4 + 4))));
}
END_TEST

/* Published for Wan 1.3B: 2970.5 TFLOP for 70 passes (42 frames, all visible), 2405.4 with a window
 * of 21 frames, and 990.8 for 21 frames. The published numbers are sums of rounded terms and count
 * the text MLP (0.6) in every pass; kvreel counts it once. */
START_TEST(wan)
{
    struct kvr_model_config c;

    ck_assert_int_eq(kvr_model_config_read(&c, "models/wan-1.3b-random/config.json"), KVR_OK);
    ck_assert(fabs(kvr_rollout_flop(&c, 42, 0) * 1e-12 - 2970.5) <= 1);
    ck_assert(fabs(kvr_rollout_flop(&c, 42, 21) * 1e-12 - 2405.4) <= 1);
    ck_assert(fabs(kvr_rollout_flop(&c, 21, 0) * 1e-12 - 990.8) <= 1);
    kvr_model_config_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("flops");
    TCase *tc = tcase_create("flops");

    tcase_add_test(tc, by_hand);
    tcase_add_test(tc, wan);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
