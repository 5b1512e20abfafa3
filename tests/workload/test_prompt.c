/* test_prompt.c - the prompt grammar and the bundled model's vocabulary. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/suite.h"
#include "harness/workload/prompt.h"
#include "tests/suite.h"

static struct kvr_model_config nano;

static void open_model(void)
{
    ck_assert_msg(kvr_model_config_read(&nano, "models/nano/config.json") == KVR_OK, "%s",
                  kvr_error());
}

static void close_model(void)
{
    kvr_model_config_free(&nano);
}

/* Writes an act (prompt.h) to buf as text: its words, such as "red" for "color:red", separated by
 * blanks. Returns buf. */
static const char *spell(const int *ids, char *buf, size_t n)
{
    size_t len = 0;

    for (int i = 0; i < KVR_PROMPT_SLOTS; i++) {
        const char *w = nano.vocabulary[ids[i]];
        const char *colon = strchr(w, ':');

        len += (size_t)snprintf(buf + len, n - len, "%s%s", i ? " " : "", colon ? colon + 1 : w);
    }
    return buf;
}

#define NOBODY "<none> <none> <none> <none> <none> <none> "

static const struct good_case {
    const char *text;
    int chunks;
    struct {
        int from;
        const char *slots;
    } act[4]; /* expected acts, up to the first NULL */
} good[] = {
    { "a large red disc bounces over a plain blue background",
      14,
      { { 0, "large red solid disc bounces - " NOBODY "plain blue static <pad>" } } },
    { "A large GREEN square drifts right over a gradient purple background, camera pans left.",
      14,
      { { 0, "large green solid square drifts right " NOBODY "gradient purple pan-left <pad>" } } },
    { "a small drifting yellow triangle on a white checkered ground, static camera",
      14,
      { { 0,
          "small yellow solid triangle drifts right " NOBODY "checkered white static <pad>" } } },
    { "a spinning striped ring in front of an orbiting white square against wavy red",
      7,
      { { 0, "large red striped ring spins - large white solid square orbits - wavy red static "
             "<pad>" } } },
    { "disc", 1, { { 0, "large red solid disc still - " NOBODY "plain blue static <pad>" } } },
    { "blue disc",
      1,
      { { 0, "large blue solid disc still - " NOBODY "plain white static <pad>" } } },
    { "a cyan ring drifts up over checkered red; then it orbits | bouncing",
      14,
      { { 0, "large cyan solid ring drifts up " NOBODY "checkered red static <pad>" },
        { 4, "large cyan solid ring orbits - " NOBODY "checkered red static <pad>" },
        { 9, "large cyan solid ring bounces - " NOBODY "checkered red static <pad>" } } },
    { "a disc drifts; @3: it drifts left; @12: still",
      14,
      { { 0, "large red solid disc drifts right " NOBODY "plain blue static <pad>" },
        { 3, "large red solid disc drifts left " NOBODY "plain blue static <pad>" },
        { 12, "large red solid disc still - " NOBODY "plain blue static <pad>" } } },
    { "a disc in front of a ring; it bounces in front of a drifting square",
      2,
      { { 0,
          "large red solid disc still - large white solid ring still - plain blue static <pad>" },
        { 1, "large red solid disc bounces - large white solid square drifts right plain blue "
             "static <pad>" } } },
    { "camera pans up; camera static",
      2,
      { { 0, "large red solid disc still - " NOBODY "plain blue pan-up <pad>" },
        { 1, "large red solid disc still - " NOBODY "plain blue static <pad>" } } },
};

START_TEST(slots_and_acts)
{
    const struct good_case *g = &good[_i];
    struct kvr_prompt p;
    char buf[512];
    int n = 0;

    ck_assert_msg(kvr_prompt_parse(&nano, g->text, g->chunks, &p) == KVR_OK, "%s: %s", g->text,
                  kvr_error());
    while (n < 4 && g->act[n].slots)
        n++;
    ck_assert_msg(p.n_acts == n, "%s: %d acts, want %d", g->text, p.n_acts, n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(p.act[i].from_chunk, g->act[i].from);
        ck_assert_str_eq(spell(p.act[i].ids, buf, sizeof buf), g->act[i].slots);
    }
}
END_TEST

static const struct bad_case {
    const char *text;
    int chunks;
    const char *says[3]; /* parts of the error message */
} bad[] = {
    { "a large red disk bounces", 14, { "'disk'", "character 13", "'disc'" } },
    { "a purpel ring", 14, { "'purpel'", "character 3", "'purple'" } },
    { "a ring bounces ovr a plain ground", 14, { "'ovr'", "character 16", "'over'" } },
    { "a ring xyzzyplugh", 14, { "'xyzzyplugh'", "character 8", NULL } },
    { "an upward ring", 14, { "'upward'", "character 4", NULL } },
    { "a ring over a square background", 14, { "'square'", "a shape", "the background" } },
    { "a red blue ring", 14, { "'blue'", "character 7", "'red'" } },
    { "a ring orbits left", 14, { "left", "drifts", "orbits" } },
    { "a ring in a box", 14, { "'in'", "front of", NULL } },
    { "a ring over red over blue", 14, { "'over'", "the background", NULL } },
    { "a ring over red in front of a disc", 14, { "'in'", "character 17", "the background" } },
    { "a ring, camera pans", 14, { "pans", "left", NULL } },
    { "a ring, camera pans over", 14, { "'over'", NULL, NULL } },
    { "", 14, { "empty", NULL, NULL } },
    { "a ring; ; it bounces", 14, { "empty", "character 9", NULL } },
    { "a ring;", 14, { "empty", NULL, NULL } },
    { "a ring 7", 14, { "0x37", "character 8", NULL } },
    { "a r\xc3\xa9"
      "d ring",
      14,
      { "0xc3", NULL, NULL } },
    { "@1: a ring", 14, { "first act", "1", NULL } },
    { "a ring; @14: still", 14, { "@14", "0..13", NULL } },
    { "a ring; @: still", 14, { "'@'", "character 9", NULL } },
    { "a ring; @-1: still", 14, { "'@'", NULL, NULL } },
    { "a ring; @99999999999999999999: still", 14, { "0..13", NULL, NULL } },
    { "a ring; @5: still; @5: bounces", 14, { "act 3", "5", NULL } },
    { "a ring; @12: still; bounces", 14, { "act 3", "12", NULL } },
    { "a ring; still; bounces", 2, { "3 acts", "2 chunks", NULL } },
    { "a ring", 0, { "0 chunks", NULL, NULL } },
};

START_TEST(refused_with_a_reason)
{
    const struct bad_case *b = &bad[_i];
    struct kvr_prompt p = { .n_acts = -7 };

    ck_assert_msg(kvr_prompt_parse(&nano, b->text, b->chunks, &p) == KVR_EINVAL, "'%s' passed",
                  b->text);
    ck_assert_int_eq(p.n_acts, -7);
    for (int i = 0; i < 3 && b->says[i]; i++)
        ck_assert_msg(strstr(kvr_error(), b->says[i]) != NULL, "'%s': \"%s\" lacks \"%s\"", b->text,
                      kvr_error(), b->says[i]);
}
END_TEST

/* The parser must accept or refuse very long prompts without reading beyond the end of the string,
 * which builds with sanitizers check. */
START_TEST(hostile_lengths)
{
    size_t n = 1 << 20;
    char *s = malloc(n + 1);
    struct kvr_prompt p;

    ck_assert_ptr_nonnull(s);
    memset(s, 'a', n);
    s[n] = '\0';
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 14, &p), KVR_EINVAL);
    s[KVR_PROMPT_MAX] = '\0';
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 14, &p), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "is too long; at most"));
    s[47] = '\0'; /* the longest possible word */
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 14, &p), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), s));
    memset(s, ';', 4000);
    s[4000] = '\0';
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 14, &p), KVR_EINVAL);
    for (int i = 0; i < KVR_MAX_ACTS + 1; i++)
        memcpy(s + 5 * i, "disc|", 6);
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 1000, &p), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "more than the limit of 32 acts"));
    s[5 * KVR_MAX_ACTS - 1] = '\0';
    ck_assert_int_eq(kvr_prompt_parse(&nano, s, 1000, &p), KVR_OK);
    ck_assert_int_eq(p.n_acts, KVR_MAX_ACTS);
    free(s);
}
END_TEST

/* Fuzzing: replaces each byte of a valid prompt by every other value. The parser must neither crash
 * nor return an id outside the vocabulary. */
START_TEST(any_byte_anywhere)
{
    const char *text = "a red disc drifts left in front of a ring over plain blue; @3: it orbits";
    char s[128];
    struct kvr_prompt p;

    for (size_t at = 0; at < strlen(text); at++)
        for (int byte = 1; byte < 256; byte++) {
            strcpy(s, text);
            s[at] = (char)byte;
            if (kvr_prompt_parse(&nano, s, 14, &p) != KVR_OK)
                continue;
            for (int a = 0; a < p.n_acts; a++)
                for (int i = 0; i < KVR_PROMPT_SLOTS; i++)
                    ck_assert(p.act[a].ids[i] >= 0 && p.act[a].ids[i] < nano.n_vocabulary);
        }
}
END_TEST

START_TEST(act_of_each_chunk)
{
    struct kvr_prompt p;

    ck_assert_int_eq(kvr_prompt_parse(&nano, "a disc; still; @9: orbits", 14, &p), KVR_OK);
    for (int c = 0; c < 14; c++)
        ck_assert_int_eq(kvr_prompt_act_at(&p, c), c < 4 ? 0 : c < 9 ? 1 : 2);
}
END_TEST

START_TEST(models_that_cannot)
{
    struct kvr_model_config none = { .text_len = 16 }, longer = nano;
    struct kvr_prompt p;

    ck_assert_int_eq(kvr_prompt_parse(&none, "a disc", 14, &p), KVR_EUNSUPPORTED);
    longer.text_len = 17;
    ck_assert_int_eq(kvr_prompt_parse(&longer, "a disc", 14, &p), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "17"));
    longer = nano;
    longer.n_vocabulary = 10; /* lacks "color:white" and all later words */
    ck_assert_int_eq(kvr_prompt_parse(&longer, "a disc", 14, &p), KVR_EUNSUPPORTED);
}
END_TEST

static const struct suite_case {
    const char *path;
    int min_acts; /* minimum number of acts per prompt */
} suites[] = {
    { "configs/suites/moviegen-nano.yaml", 1 },
    { "configs/suites/storyeval-nano.yaml", 2 },
};

START_TEST(suite_prompts_parse)
{
    struct kvr_suite s;
    struct kvr_prompt p;

    ck_assert_msg(kvr_suite_read(&s, suites[_i].path) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(s.model, "nano");
    ck_assert_int_eq(s.frames, 42);
    ck_assert_int_ge(s.n_prompts, 12);
    for (int i = 0; i < s.n_prompts; i++) {
        ck_assert_msg(kvr_prompt_parse(&nano, s.prompt[i].text, 14, &p) == KVR_OK, "%s: %s",
                      s.prompt[i].id, kvr_error());
        ck_assert_msg(p.n_acts >= suites[_i].min_acts, "%s: %d acts", s.prompt[i].id, p.n_acts);
    }
    kvr_suite_free(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prompt");
    TCase *tc = tcase_create("grammar");

    tcase_add_checked_fixture(tc, open_model, close_model);
    tcase_add_loop_test(tc, slots_and_acts, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(tc, refused_with_a_reason, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, hostile_lengths);
    tcase_add_test(tc, any_byte_anywhere);
    tcase_add_test(tc, act_of_each_chunk);
    tcase_add_test(tc, models_that_cannot);
    tcase_add_loop_test(tc, suite_prompts_parse, 0, sizeof suites / sizeof *suites);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
