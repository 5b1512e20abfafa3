/* test_prompt_score.c - the prompt-recognition network in C gives the same values as in PyTorch,
 * and a wrong word in the prompt lowers the score.
 *
 * The clips are those of models/nano/truth.safetensors, on which the network was not trained. The
 * recorded values are PyTorch's (models/nano/probe.py). For each window of frames, five classifier
 * heads give the probabilities of five words of the prompt. The score is their mean. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/prompt_words.h"
#include "harness/workload/truth.h"
#include "tests/suite.h"

static const struct clip {
    const char *name, *prompt, *other; /* `other` is the prompt with one word changed */
    double value, first;
} clips[] = {
    { "ct01", "a large red disc drifts right over a plain blue background",
      "a large red disc drifts left over a plain blue background", 0.918455929, 0.957137716 },
    { "ct03", "a large cyan ring orbits over a checkered red background",
      "a large cyan ring orbits over a plain red background", 0.999977305, 0.99997592 },
    { "ct05", "a large purple triangle bounces over a gradient yellow background",
      "a large purple square bounces over a gradient yellow background", 0.999433336, 0.999528039 },
    { "ct08", "a large blue ring stays still over a checkered orange background",
      "a large blue ring stays still over a checkered green background", 0.999975204, 0.999975204 },
};
enum { N_CLIPS = sizeof clips / sizeof clips[0] };

static struct kvr_model_config config;
static struct kvr_st *file;

static void open_all(void)
{
    ck_assert_int_eq(kvr_model_config_read(&config, "models/nano/config.json"), KVR_OK);
    ck_assert_int_eq(kvr_st_open(&file, "models/nano/truth.safetensors"), KVR_OK);
}

static void close_all(void)
{
    kvr_st_close(&file);
    kvr_model_config_free(&config);
}

static void measure(const struct clip *c, const char *prompt, int frames,
                    struct kvr_metric_value *v)
{
    struct kvr_tensor t;
    struct kvr_frames f;
    struct kvr_prompt_words words;
    struct kvr_metric_input in = { .ref = &f, .test = &f, .chunk = 3 };

    ck_assert_int_eq(kvr_st_get(file, c->name, &t), KVR_OK);
    f = (struct kvr_frames){ frames, 48, 48, t.data };
    ck_assert_int_eq(kvr_prompt_words_open(&words, "models/nano", &config, prompt, frames / 3),
                     KVR_OK);
    ck_assert_int_eq(words.prompt.n_chunks, frames / 3);
    in.prompt = &words.prompt;
    ck_assert_msg(kvr_metric_measure(kvr_metric_find("prompt_score"), &in, v) == KVR_OK, "%s",
                  kvr_error());
    kvr_prompt_words_close(&words);
}

START_TEST(as_trained)
{
    const struct clip *c = &clips[_i];
    struct kvr_metric_value v;

    measure(c, c->prompt, 42, &v);
    ck_assert_str_eq(v.missing, "");
    /* Sums of up to 1152 products in float are added in another order than PyTorch's. */
    ck_assert_msg(fabs(v.value - c->value) <= 1e-5, "%.9g, recorded %.9g", v.value, c->value);
    ck_assert_msg(fabs(v.series[6] - c->first) <= 1e-5, "%.9g, recorded %.9g", v.series[6],
                  c->first);
    ck_assert(isnan(v.series[5]) && v.first == 6 && v.n_series == 42);
    kvr_metric_value_free(&v);
}
END_TEST

/* One wrong word of five lowers the score by a fifth: its head gives that word almost no
 * probability. */
START_TEST(another_word_is_seen)
{
    const struct clip *c = &clips[_i];
    struct kvr_metric_value v;

    measure(c, c->other, 42, &v);
    ck_assert_msg(fabs(v.value - (c->value - 0.2)) <= 0.05, "%g beside %g", v.value, c->value);
    ck_assert(v.extra <= 0.8);
    kvr_metric_value_free(&v);
}
END_TEST

/* The prompt's motion changes at chunk 7. Windows of frames that contain both motions are scored
 * without the motion word; later windows are scored with the new one. */
START_TEST(the_motion_may_change)
{
    struct kvr_metric_value v;

    measure(&clips[2],
            "a large purple triangle bounces over a gradient yellow background; @7: it "
            "orbits",
            42, &v);
    ck_assert(v.series[3 * 6] > 0.99);                           /* still bounces */
    ck_assert(v.series[3 * 7] > 0.99 && v.series[3 * 8] > 0.99); /* no motion word */
    ck_assert(fabs(v.series[3 * 9] - 0.8) < 0.05);               /* the clip does not orbit */
    kvr_metric_value_free(&v);
}
END_TEST

START_TEST(missing_scores_have_a_reason)
{
    struct kvr_metric_value v;

    measure(&clips[0], clips[0].prompt, 6, &v);
    ck_assert_ptr_nonnull(strstr(v.missing, "at least 9 frames"));
    kvr_metric_value_free(&v);
    {
        const uint8_t rgb[9 * 12] = { 0 };
        const struct kvr_frames f = { 9, 2, 2, rgb };
        const struct kvr_metric_input in = { .ref = &f, .test = &f, .chunk = 3 };

        ck_assert_int_eq(kvr_metric_measure(kvr_metric_find("prompt_score"), &in, &v), KVR_OK);
        ck_assert_ptr_nonnull(
            strstr(v.missing, "prompt in the words of the model's vocabulary is unknown"));
        kvr_metric_value_free(&v);
    }
}
END_TEST

/* Scores four chunks of clip 0. `word` replaces each word of chunk 3, and `probe` replaces the path
 * of the network; either may be NULL. */
static enum kvr_status scored(const char *word, const char *probe, struct kvr_metric_value *v)
{
    struct kvr_tensor t;
    struct kvr_prompt_words own;
    struct kvr_metric_prompt prompt;
    struct kvr_frames f;
    struct kvr_metric_input in = { .ref = &f, .test = &f, .chunk = 3, .prompt = &prompt };
    enum kvr_status st;

    ck_assert_int_eq(kvr_st_get(file, clips[0].name, &t), KVR_OK);
    f = (struct kvr_frames){ 12, 48, 48, t.data };
    ck_assert_int_eq(kvr_prompt_words_open(&own, "models/nano", &config, clips[0].prompt, 4),
                     KVR_OK);
    prompt = own.prompt;
    for (int i = 0; word && i < prompt.n_slots; i++)
        own.word[3 * prompt.n_slots + i] = word;
    if (probe)
        prompt.probe = probe;
    st = kvr_metric_measure(kvr_metric_find("prompt_score"), &in, v);
    kvr_prompt_words_close(&own);
    return st;
}

START_TEST(a_chunk_without_words_is_named)
{
    struct kvr_metric_value v;

    ck_assert_int_eq(scored("unknown", NULL, &v), KVR_OK);
    ck_assert_msg(strstr(v.missing, "the prompt of chunk 3 has no word"), "%s", v.missing);
    kvr_metric_value_free(&v);
}
END_TEST

/* A network with one weight of NaN is an error; the score is not missing. */
START_TEST(nan_weights_are_refused)
{
    char path[] = "/tmp/kvreel-test-probe-XXXXXX";
    const int fd = mkstemp(path);
    FILE *from = fopen("models/nano/probe.safetensors", "r"), *to = fdopen(fd, "w");
    const float nan = NAN;
    struct kvr_metric_value v;
    enum kvr_status st;
    char b[4096];
    size_t n;

    ck_assert(from && to);
    while ((n = fread(b, 1, sizeof b, from)) > 0)
        ck_assert_uint_eq(fwrite(b, 1, n, to), n);
    ck_assert_int_eq(fseek(to, -(long)sizeof nan, SEEK_CUR), 0);
    ck_assert_uint_eq(fwrite(&nan, sizeof nan, 1, to), 1);
    fclose(from);
    ck_assert_int_eq(fclose(to), 0);
    st = scored(NULL, path, &v);
    unlink(path);
    ck_assert_int_eq(st, KVR_ENAN);
    ck_assert_msg(strstr(kvr_error(), "weights must be finite"), "%s", kvr_error());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prompt_score");
    TCase *tc = tcase_create("prompt_score");

    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, as_trained, 0, N_CLIPS);
    tcase_add_loop_test(tc, another_word_is_seen, 0, N_CLIPS);
    tcase_add_test(tc, the_motion_may_change);
    tcase_add_test(tc, missing_scores_have_a_reason);
    tcase_add_test(tc, a_chunk_without_words_is_named);
    tcase_add_test(tc, nan_weights_are_refused);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
