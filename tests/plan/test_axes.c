/* test_axes.c - the axes of a sweep file: ranges, zipped axes, rules, groups of methods. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/sweep.h"
#include "tests/suite.h"

static struct kvr_model_config model;

static void read_model(void)
{
    ck_assert_msg(kvr_model_config_read(&model, "models/nano/config.json") == KVR_OK, "%s",
                  kvr_error());
}

static void free_model(void)
{
    kvr_model_config_free(&model);
}

#define BASE                                                                                       \
    "model: nano\n"                                                                                \
    "prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]\n"

static enum kvr_status make(struct kvr_config *c, struct kvr_sweep *s, const char *text)
{
    struct kvr_model_facts facts = { .name = "nano", .sha256 = "00", .config = &model };
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    st = kvr_config_read_text(c, text, "a.yaml", NULL);
    return st == KVR_OK ? kvr_sweep_make(s, c, &facts, 1) : st;
}

static void drop(struct kvr_config *c, struct kvr_sweep *s)
{
    kvr_sweep_free(s);
    kvr_config_free(c);
}

static const struct {
    const char *text, *values;
} ranges[] = {
    { "6..42+12", "6 18 30 42" },
    { "6..12+3", "6 9 12" },
    { "3..30*3", "3 9 27" },
    { "{from: 6, to: 24, times: 2}", "6 12 24" },
    { "3..3", "3" },
    { "{from: 6, to: 13, step: 3}", "6 9 12" },
    { "[3, 6..12+3, 30]", "3 6 9 12 30" },
    { "[3..3]", "3" },
};

START_TEST(range_values)
{
    char text[256], got[128] = "";
    struct kvr_config c;

    snprintf(text, sizeof text, BASE "methods: [BF16]\nframes: %s\n", ranges[_i].text);
    ck_assert_msg(kvr_config_read_text(&c, text, "a.yaml", NULL) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < c.values[KVR_SET_frames].n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", i ? " " : "",
                 c.values[KVR_SET_frames].value[i]);
    ck_assert_str_eq(got, ranges[_i].values);
    kvr_config_free(&c);
}
END_TEST

/* Seeds have more digits than a range's fractions. */
START_TEST(range_of_large_integers)
{
    struct kvr_config c;

    ck_assert_msg(kvr_config_read_text(&c,
                                       BASE "methods: [BF16]\nframes: 3\n"
                                            "seed: 9007199254740989..9007199254740991\n",
                                       "a.yaml", NULL) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(c.values[KVR_SET_seed].n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(c.values[KVR_SET_seed].value[i], 9007199254740989 + i);
    kvr_config_free(&c);
}
END_TEST

START_TEST(range_of_an_option)
{
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_msg(make(&c, &s,
                       BASE "methods: [{method: RTN_INT4, options: {group: 16..64*2}}]\n"
                            "frames: 6\nbaselines: none\ncontrol: 0\n") == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(s.n_cells, 4);
    ck_assert_str_eq(s.cell[1].label, "RTN_INT4 group=16");
    ck_assert_str_eq(s.cell[3].label, "RTN_INT4 group=64");
    drop(&c, &s);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    { "frames: 9..3\n", "contains no value" },
    { "frames: 1..8*1\n", "contains no value" },
    { "frames: 1..10+0\n", "contains no value" },
    { "frames: 1..100000\n", "more than the limit of 1000 values" },
    { "frames: 3\nseed: 9007199254740993..9007199254740993\n", "list the values instead" },
    { "frames: 3\nseed: {from: 1, to: 1e19, times: 10}\n", "limit of +-9007199254740991" },
    { "frames: '6..9'\n", "whole number" },
    { "frames: 6..9x\n", "whole number" },
    { "frames: [6, 9]\nwindow: [3, 6, 9]\nzip: [frames, window]\n",
      "3 values, but the axes before it have 2" },
    { "frames: 6\nzip: [frames, windw]\n", "did you mean 'window'" },
    { "frames: 6\nzip: frames\n", "list of axes" },
    { "frames: 6\nexclude: [{when: name=X}]\n", "the rule has no 'reason'" },
    { "frames: 6\nexclude: [{when: nme=X, reason: r}]\n", "unknown field 'nme'" },
    { "frames: 6\nexclude: {when: name=X, reason: r}\n",
      "need a list of rules {when, reason}, found a map" },
    { "frames: 6\ninclude: [{when: name=X, reason: ''}]\n", "found an empty value" },
};

START_TEST(refused)
{
    char text[512];
    struct kvr_config c;
    struct kvr_sweep s;

    snprintf(text, sizeof text, BASE "methods: [BF16]\n%s", wrong[_i].text);
    ck_assert_int_eq(make(&c, &s, text), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), wrong[_i].says) != NULL, "'%s'", kvr_error());
    ck_assert_msg(strncmp(kvr_error(), "a.yaml:", 7) == 0, "'%s'", kvr_error());
    kvr_config_free(&c);
}
END_TEST

/* 5000 ranges of 900 values each are refused before the planner allocates gigabytes for them. */
START_TEST(too_many_ranges)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    struct kvr_config c;

    fprintf(f, BASE "methods: [BF16]\nframes: [");
    for (int i = 0; i < 5000; i++)
        fprintf(f, "1..900, ");
    fprintf(f, "3]\n");
    fclose(f);
    ck_assert_int_eq(kvr_config_read_text(&c, text, "a.yaml", NULL), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "all ranges together contain more"));
    free(text);
}
END_TEST

START_TEST(zipped)
{
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_msg(make(&c, &s,
                       BASE "methods: [BF16]\nframes: [6, 9, 12]\nwindow: [3, 6, 9]\n"
                            "sink: [0, 3]\nzip: [frames, window]\n") == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(s.n_cells, 3 * 2); /* sink is not among the zipped axes */
    for (int i = 0; i < s.n_cells; i++)
        ck_assert_int_eq(s.cell[i].set.window, s.cell[i].set.frames - 3);
    drop(&c, &s);
}
END_TEST

START_TEST(rules)
{
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_msg(make(&c, &s,
                       BASE "methods: [BF16, RTN_INT4, RTN_INT2]\nframes: [6, 9]\n"
                            "exclude: [{when: name=RTN_INT2 & frames=9, reason: too long}]\n"
                            "include: [{when: name!=RTN_INT4, reason: not now}]\n") == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(s.n_cells, 6);
    for (int i = 0; i < 6; i++) {
        const struct kvr_cell *x = &s.cell[i];
        const bool out2 = strcmp(x->name, "RTN_INT2") == 0 && x->set.frames == 9;
        const bool out4 = strcmp(x->name, "RTN_INT4") == 0;

        ck_assert_int_eq(x->excluded, out2 || out4);
        ck_assert_int_eq(x->possible, !x->excluded);
        ck_assert_str_eq(x->reason, out2 ? "excluded: too long" : out4 ? "excluded: not now" : "");
    }
    drop(&c, &s);
}
END_TEST

static int count_named(const struct kvr_sweep *s, const char *label)
{
    int n = 0;

    for (int i = 0; i < s->n_cells; i++)
        n += strcmp(s->cell[i].label, label) == 0;
    return n;
}

START_TEST(groups)
{
    struct kvr_config c;
    struct kvr_sweep s;
    int n_study = 0, n_kivi = 0;

    for (int i = 0; kvr_methods[i]; i++) {
        n_study += kvr_methods[i]->study;
        n_kivi += strcmp(kvr_methods[i]->family, "KIVI") == 0;
    }
    ck_assert_int_eq(n_study, 33);
    ck_assert_msg(make(&c, &s, BASE "methods: [BF16, study33]\nframes: 6\nbaselines: none\n") ==
                      KVR_OK,
                  "%s", kvr_error());
    /* study33 contains BF16, which is planned once; 4 cells are reruns of BF16 with jitter */
    ck_assert_int_eq(s.n_cells, 33 + 4);
    drop(&c, &s);
    ck_assert_msg(make(&c, &s,
                       BASE
                       "methods: ['family:KIVI', few@study, few]\n"
                       "tags: {few: [RTN_INT4, QUAROT_KV_INT4]}\nframes: 6\nbaselines: none\n") ==
                      KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(s.n_cells, 1 + n_kivi + 4 + (n_kivi + 4) / 4);
    ck_assert_int_eq(count_named(&s, "RTN_INT4@study"), 1);
    ck_assert_int_eq(count_named(&s, "RTN_INT4"), 1);
    ck_assert_int_eq(count_named(&s, "QUAROT_KV_INT4@study"), 1);
    drop(&c, &s);
    ck_assert_int_eq(make(&c, &s, BASE "methods: [study34]\nframes: 6\n"), KVR_EINVAL);
    kvr_config_free(&c);
}
END_TEST

/* `timing` changes a cell's key but not its rollout's hash. Without `timing`, the spec does not
 * mention it. */
START_TEST(timing_is_in_the_key)
{
    struct kvr_config a, b, w;
    struct kvr_sweep sa, sb, sw;

    ck_assert_int_eq(make(&a, &sa, BASE "methods: [BF16]\nframes: 6\n"), KVR_OK);
    ck_assert_int_eq(make(&b, &sb, BASE "methods: [BF16]\nframes: 6\ntiming: true\n"), KVR_OK);
    ck_assert_int_eq(make(&w, &sw, BASE "methods: [BF16]\nframes: 6\ntiming: true\nwarmup: 3\n"),
                     KVR_OK);
    ck_assert_str_ne(sa.cell[0].key, sb.cell[0].key);
    ck_assert_str_ne(sw.cell[0].key, sb.cell[0].key);
    ck_assert_str_eq(sa.cell[0].rollout, sb.cell[0].rollout);
    ck_assert_ptr_null(strstr(sa.cell[0].spec, "timing"));
    drop(&a, &sa);
    drop(&b, &sb);
    drop(&w, &sw);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("axes");
    TCase *tc = tcase_create("axes");

    tcase_add_unchecked_fixture(tc, read_model, free_model);
    tcase_add_loop_test(tc, range_values, 0, sizeof ranges / sizeof *ranges);
    tcase_add_test(tc, range_of_large_integers);
    tcase_add_test(tc, range_of_an_option);
    tcase_add_loop_test(tc, refused, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tc, too_many_ranges);
    tcase_add_test(tc, zipped);
    tcase_add_test(tc, rules);
    tcase_add_test(tc, groups);
    tcase_add_test(tc, timing_is_in_the_key);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
