/* test_sweep.c - cells and their keys: equal settings give equal keys, any other setting another
 * key. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/plan/filter.h"
#include "harness/plan/parts.h"
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

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Plans cells of the bundled model's config with a made-up hash of its weights, which need not
 * exist. */
static enum kvr_status make(struct kvr_config *c, struct kvr_sweep *s, const char *text,
                            const char *const *overrides, const char *sha256)
{
    struct kvr_model_facts facts = { .name = "nano", .sha256 = sha256, .config = &model };
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    st = kvr_config_read_text(c, text, "a.yaml", overrides);
    return st == KVR_OK ? kvr_sweep_make(s, c, &facts, 1) : st;
}

static void must_make(struct kvr_config *c, struct kvr_sweep *s, const char *text,
                      const char *const *overrides)
{
    ck_assert_msg(make(c, s, text, overrides, SHA) == KVR_OK, "%s", kvr_error());
}

static void drop(struct kvr_config *c, struct kvr_sweep *s)
{
    kvr_sweep_free(s);
    kvr_config_free(c);
}

#define ONE                                                                                        \
    "model: nano\n"                                                                                \
    "prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]\n"           \
    "methods: [RTN_INT4]\nframes: 6\nseed: 5\n"

START_TEST(baseline_is_implied)
{
    struct kvr_config c;
    struct kvr_sweep s;

    must_make(&c, &s, ONE, NULL);
    ck_assert_int_eq(s.n_cells, 2);
    ck_assert_str_eq(s.cell[0].label, "BF16");
    ck_assert_ptr_null(s.cell[0].method);
    ck_assert_int_eq(s.cell[0].baseline, 0);
    ck_assert_int_eq(s.cell[1].baseline, 0);
    ck_assert_str_eq(s.cell[1].label, "RTN_INT4");
    ck_assert_int_eq((int)s.cell[1].set.seed, 5);
    ck_assert_int_eq(s.cell[1].set.window, 21);
    ck_assert_str_eq(s.cell[0].group, s.cell[1].group);
    ck_assert_str_ne(s.cell[0].rollout, s.cell[1].rollout);
    drop(&c, &s);
    { /* BF16 may be listed or implied: the cells are the same */
        static const char *const both[] = { "methods=[RTN_INT4, BF16]", NULL };
        struct kvr_config c2;
        struct kvr_sweep s2;

        must_make(&c, &s, ONE, NULL);
        must_make(&c2, &s2, ONE, both);
        ck_assert_int_eq(s2.n_cells, 2);
        ck_assert_str_eq(s.cell[0].key, s2.cell[0].key);
        ck_assert_str_eq(s.cell[1].key, s2.cell[1].key);
        drop(&c, &s);
        drop(&c2, &s2);
    }
}
END_TEST

/* Keys that existing databases contain: only a new KVR_CELL_FORMAT may change them. */
START_TEST(pinned)
{
    struct kvr_config c;
    struct kvr_sweep s;
    char key[KVR_KEY_LEN], *again;
    json_t *spec;

    ck_assert_int_eq(kvr_cell_hash("abc", key), KVR_OK);
    ck_assert_str_eq(key, "ba7816bf8f01cfea414140de5dae2223"); /* published in FIPS 180-2 */
    must_make(&c, &s, ONE, NULL);
    ck_assert_str_eq(s.cell[0].group, "d9d76aa01c427de674a45bb6d4d9780c");
    spec = json_loads(s.cell[1].spec, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(spec);
    again = json_dumps(spec, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII);
    ck_assert_str_eq(again, s.cell[1].spec);
    ck_assert_int_eq(json_integer_value(json_object_get(spec, "format")), KVR_CELL_FORMAT);
    ck_assert_int_eq(kvr_cell_hash(again, key), KVR_OK);
    ck_assert_str_eq(key, s.cell[1].key);
    free(again);
    json_decref(spec);
    drop(&c, &s);
}
END_TEST

static const char *const changes[] = {
    "frames=9",
    "window=9",
    "sink=3",
    "evict=true",
    "path=dense",
    "seed=6",
    "threads=2",
    "metrics=[psnr]",
    "methods=[{method: RTN_INT4, options: {bits: 3}}]",
    "methods=[RTN_INT2]",
    "methods=[RTN_INT4+taylor]",
    "methods=[RTN_INT4@study]",
    "prompts=[{id: p2, text: a small green disc bounces over a plain white background}]",
    "prompts=[{id: p1, text: a large red ring bounces over a plain blue background}]",
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

START_TEST(any_setting_changes_the_key)
{
    char keys[N_CHANGES + 2][KVR_KEY_LEN];
    struct kvr_config c;
    struct kvr_sweep s;

    for (int i = 0; i < N_CHANGES + 2; i++) {
        const char *overrides[] = { i < N_CHANGES ? changes[i] : NULL, NULL };
        const char *sha = i == N_CHANGES + 1 ? "f" SHA : SHA; /* other weights */

        ck_assert_msg(make(&c, &s, ONE, overrides, sha) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(s.n_cells, 2);
        memcpy(keys[i], s.cell[1].key, KVR_KEY_LEN);
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(keys[i], keys[j]) != 0, "%d and %d have one key", i, j);
        drop(&c, &s);
    }
}
END_TEST

/* An option that repeats a method's own value, in whatever notation, gives the cell without that
 * option. */
static const char *const same_cells[][2] = {
    { "methods=[RTN_INT4]", "methods=[{method: RTN_INT4, options: {bits: 4}}]" },
    { "methods=[RTN_INT4]",
      "methods=[{method: RTN_INT4, label: mine, options: {group: 16, v.bits: 4}}]" },
    { "methods=[RTN_INT4]", "methods=[{method: RTN_INT4, options: {retention: none}}]" },
    { "methods=[RTN_INT4]",
      "methods=[{method: RTN_INT4, options: {bits: 3, k.bits: 4, v.bits: 4}}]" },
    { "methods=[RTN_INT4+taylor]", "methods=[{method: RTN_INT4, options: {correction: taylor}}]" },
    { "methods=[RTN_INT4@study]",
      "methods=[{method: RTN_INT4@study, options: {layer_budget: moviegen}}]" },
    { "methods=[{method: RTN_INT4, options: {bits: 3}}]",
      "methods=[{method: RTN_INT4, options: {bits: 3, group: 16, k.bits: 3}}]" },
};

/* Checks that the method that a worker builds from a cell's spec equals the planned one. */
static void is_read_back(const char *text)
{
    json_t *spec = json_loads(text, 0, NULL), *parts, *value;
    struct kvr_setting set[16];
    struct kvr_scheme *scheme;
    const char *key;
    int n = 0;

    json_object_foreach(json_object_get(spec, "options"), key, value) set[n++] =
        (struct kvr_setting){ key, json_string_value(value) };
    ck_assert_msg(kvr_scheme_open(&scheme, json_string_value(json_object_get(spec, "plan")), set,
                                  n) == KVR_OK,
                  "%s", kvr_error());
    parts = kvr_parts_json(scheme);
    ck_assert_msg(json_equal(parts, json_object_get(spec, "parts")), "%s", text);
    kvr_scheme_close(&scheme);
    json_decref(parts);
    json_decref(spec);
}

START_TEST(redundant_options_give_the_same_cell)
{
    const char *const plain[] = { same_cells[_i][0], NULL }, *const config[] = { same_cells[_i][1],
                                                                                 NULL };
    struct kvr_config c, c2;
    struct kvr_sweep s, s2;

    must_make(&c, &s, ONE, plain);
    must_make(&c2, &s2, ONE, config);
    ck_assert_str_eq(s2.cell[1].spec, s.cell[1].spec);
    ck_assert_str_eq(s2.cell[1].key, s.cell[1].key);
    is_read_back(s2.cell[1].spec);
    drop(&c, &s);
    drop(&c2, &s2);
}
END_TEST

/* A cell's spec contains the options that change the method, in any order of options in the sweep,
 * and the value solved for a `fit` budget. All cells of a method get the same solved value. */
START_TEST(options_and_solutions_are_in_the_spec)
{
    static const char *const config[] = {
        "methods=[{method: AGE_TIER_INT4, options: {old.bits: [2, 8], k.bits: 2, recent.bits: 4}},"
        " {method: RTN_INT4, options: {group: fit 5}}]",
        "frames=[6, 9]", "baselines=none", "control=0", NULL
    };
    struct kvr_config c;
    struct kvr_sweep s;

    must_make(&c, &s, ONE, config);
    ck_assert_int_eq(s.n_cells, 2 * 4);
    for (int i = 0; i < s.n_cells; i++)
        is_read_back(s.cell[i].spec);
    for (int i = 0; i < s.n_cells; i += 4) {
        ck_assert_ptr_nonnull(strstr(s.cell[i + 1].spec, "\"old.bits\":\"2\""));
        ck_assert_ptr_nonnull(strstr(s.cell[i + 2].spec, "\"old.bits\":\"8\""));
        ck_assert_ptr_nonnull(strstr(s.cell[i + 3].spec, "\"options\":{\"group\":\""));
    }
    ck_assert_str_eq(s.cell[1].label, "AGE_TIER_INT4 old.bits=2 k.bits=2 recent.bits=4");
    drop(&c, &s);
}
END_TEST

/* Settings that do not change frames do not change the rollout's hash. */
START_TEST(metrics_do_not_change_the_rollout_hash)
{
    static const char *const fewer[] = { "metrics=[psnr]", "repeats=2", NULL };
    struct kvr_config c, c2;
    struct kvr_sweep s, s2;

    must_make(&c, &s, ONE, NULL);
    must_make(&c2, &s2, ONE, fewer);
    ck_assert_int_eq(s2.n_cells, 4);
    ck_assert_str_eq(s.cell[1].rollout, s2.cell[1].rollout);
    ck_assert_str_eq(s.cell[1].rollout, s2.cell[3].rollout);
    ck_assert_str_ne(s2.cell[1].key, s2.cell[3].key);
    ck_assert_int_eq(s2.cell[3].baseline, 2);
    drop(&c, &s);
    drop(&c2, &s2);
}
END_TEST

/* A probe cell has its own key and baseline but the rollout hash of the timed cell. Probes are
 * never repeated. */
START_TEST(kinds_have_their_own_keys)
{
    static const char *const both[] = { "kind=[bench, probe]", "repeats=2", NULL };
    static const char *const third[] = { "kind=probe", "probe_every=3", NULL };
    static const char *const bench[] = { "probe_every=3", NULL };
    struct kvr_config c, c2, c3;
    struct kvr_sweep s, s2, s3;

    must_make(&c, &s, ONE, both);
    ck_assert_int_eq(s.n_cells, 2 * 3);
    ck_assert_str_eq(s.cell[1].set.kind, "bench");
    ck_assert_str_eq(s.cell[5].set.kind, "probe");
    ck_assert_ptr_null(strstr(s.cell[1].spec, "probe_every"));
    ck_assert_int_eq(s.cell[5].set.probe_every, 1);
    ck_assert_int_eq(s.cell[5].baseline, 4);
    ck_assert_str_eq(s.cell[5].rollout, s.cell[1].rollout);
    ck_assert_str_ne(s.cell[5].key, s.cell[1].key);
    ck_assert_str_ne(s.cell[5].video, s.cell[1].video);
    ck_assert_int_eq(kvr_sweep_select(&s, "kind=probe", 0, 1), KVR_OK);
    ck_assert(s.cell[5].selected && s.cell[4].selected && !s.cell[1].selected);

    /* The stride `probe_every` is part of a probe's key, but not of other cells' keys. */
    must_make(&c2, &s2, ONE, third);
    ck_assert_int_eq(s2.cell[1].set.probe_every, 3);
    ck_assert_str_ne(s2.cell[1].key, s.cell[5].key);
    must_make(&c3, &s3, ONE, bench);
    ck_assert_str_eq(s3.cell[1].key, s.cell[1].key);
    drop(&c, &s);
    drop(&c2, &s2);
    drop(&c3, &s3);
}
END_TEST

/* With probe_prompts: 2 the planner adds probes for the first two prompts of each suite, in the
 * order in which the sweep lists them. */
START_TEST(probe_prompts_limits_probes)
{
    static const char text[] = "model: nano\n"
                               "suite: [{suite: moviegen-nano, prompts: [mg03, mg01, mg02]}, "
                               "{suite: storyeval-nano, prompts: 1}]\n"
                               "methods: [RTN_INT4]\nframes: 6\nkind: [bench, probe]\n";
    static const char *const two[] = { "probe_prompts=2", NULL };
    struct kvr_config c, c2;
    struct kvr_sweep s, s2;
    char probed[64] = "";
    int k = 0;

    must_make(&c, &s, text, NULL);
    ck_assert_int_eq(s.n_cells, 2 * 2 * 4);
    must_make(&c2, &s2, text, two);
    ck_assert_int_eq(s2.n_cells, 2 * 4 + 2 * 3);
    for (int i = 0; i < s2.n_cells; i++) {
        while (strcmp(s.cell[k].key, s2.cell[i].key) != 0) /* s2 has a subset of the cells of s */
            ck_assert_int_lt(++k, s.n_cells);
        if (strcmp(s2.cell[i].set.kind, "probe") == 0 && s2.cell[i].baseline == i)
            strcat(strcat(probed, s2.cell[i].prompt->id), " ");
    }
    ck_assert_str_eq(probed, "mg03 mg01 se01 ");
    drop(&c, &s);
    drop(&c2, &s2);
}
END_TEST

START_TEST(product)
{
    static const char text[] = "model: nano\n"
                               "suite: [{suite: moviegen-nano, prompts: 3}, "
                               "{suite: storyeval-nano, prompts: 2}]\n"
                               "methods: [BF16, RTN_INT4, {method: RTN_INT4, options: {bits: [2, "
                               "3]}}]\n"
                               "frames: [42, 48]\nwindow: [0, 6]\nevict: [false, true]\n"
                               "baselines: none\ncontrol: 0\n";
    struct kvr_config c;
    struct kvr_sweep s;

    must_make(&c, &s, text, NULL);
    ck_assert_int_eq(s.n_cells, 5 * 2 * 2 * 2 * 4);
    for (int i = 0; i < s.n_cells; i++) {
        ck_assert_int_eq(s.cell[i].baseline, i / 4 * 4);
        ck_assert(s.cell[i].possible);
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(s.cell[i].key, s.cell[j].key);
            ck_assert_str_ne(s.cell[i].video, s.cell[j].video);
        }
    }
    ck_assert_str_eq(s.cell[2].label, "RTN_INT4 bits=2");
    drop(&c, &s);
}
END_TEST

/* Baselines that the planner adds: 8 bits per token and head, and windows with as many bytes as the
 * methods. `baselines: auto` adds them if there are at least three methods besides BF16; `all` and
 * `none` override that. A baseline that the sweep lists is not added again. Added baselines do not
 * change other cells' keys. */
START_TEST(added_baselines)
{
    static const char text[] =
        "model: nano\n"
        "prompts: [{id: p1, text: a large red disc bounces over a plain "
        "blue background}]\n"
        "methods: [BF16, RTN_INT8, RTN_INT4, RTN_INT2, KIVI_INT4, QUAROT_KV_INT4, QUAROT_KV_INT2, "
        "PRQ_INT4, RTN_K2_V4, RTN_INT4_RECENT2, AGE_TIER_INT2, RTN_INT4_REFRESH, H2O]\n"
        "frames: 42\nseed: 5\njitter: 0\n";
    static const char few[] = "methods=[BF16, RTN_INT4, RTN_INT2]";
    static const char three[] = "methods=[BF16, RTN_INT4, RTN_INT2, QUAROT_KV_INT2]";
    static const char some[] = "methods=[BF16, RTN_INT8, INT8_PTH, {method: ROLLING_WINDOW, "
                               "options: {frames: fit 5}}]";
    static const struct {
        const char *set[3];
        const char *label[6];
    } cases[] = {
        { { "baselines=auto" },
          /* one window of 5 bits is added, because most methods take about 5 bits */
          { "INT8_PTH", "FP8_PTH", "ROLLING_WINDOW fit=5" } },
        /* no window is added: at 5 bits it would have more frames than `window` allows */
        { { "baselines=auto", "window=12" }, { "INT8_PTH", "FP8_PTH" } },
        { { "baselines=none" }, { NULL } },
        { { "baselines=auto", few }, { NULL } },
        { { "baselines=auto", three }, { "INT8_PTH", "FP8_PTH", "ROLLING_WINDOW fit=3" } },
        { { "baselines=all", few },
          { "INT8_PTH", "FP8_PTH", "ROLLING_WINDOW fit=3", "ROLLING_WINDOW fit=5" } },
        /* no window of 9 bits is added: it would need 23 frames, but attention sees at most 21 */
        { { "baselines=all", some }, { "FP8_PTH" } },
    };
    struct kvr_config c, c0;
    struct kvr_sweep s, off;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const none[] = { "baselines=none", cases[i].set[1], NULL };
        int n = 0;

        must_make(&c0, &off, text, none);
        must_make(&c, &s, text, cases[i].set);
        while (cases[i].label[n])
            n++;
        ck_assert_msg(s.n_cells == off.n_cells + n, "%zu: %d cells, %d without", i, s.n_cells,
                      off.n_cells);
        for (int k = 0; k < s.n_cells; k++) {
            if (k < off.n_cells) {
                ck_assert_str_eq(s.cell[k].key, off.cell[k].key);
                continue;
            }
            ck_assert_str_eq(s.cell[k].label, cases[i].label[k - off.n_cells]);
            ck_assert(s.cell[k].default_baseline);
            ck_assert_str_eq(s.cell[k].warning, "");
            ck_assert_int_eq(s.cell[k].baseline, 0);
        }
        drop(&c, &s);
        drop(&c0, &off);
    }
}
END_TEST

/* The expensive part of planning is solving a budget by dry rollouts. The planner solves each pair
 * of budget and video length once, whatever else is listed. That includes the budgets of added
 * window baselines and budgets without a solution. */
START_TEST(solved_once)
{
    static const char text[] =
        "model: nano\n"
        "prompts: [{id: p1, text: a large red disc bounces over a plain blue background},\n"
        "  {id: p2, text: a small green disc bounces over a plain white background}]\n"
        "methods: [BF16, RTN_INT4, {method: STREAMING_LLM, options: {frames: [fit 2.5, fit 3]}},\n"
        "  {method: RTN_INT4, label: impossible, options: {group: fit 3}}]\n"
        "frames: 6\nbaselines: all\nrepeats: 2\n";
    static const struct {
        const char *set[4];
        int times_cells, times_work;
    } cases[] = {
        { { "seed=[1, 2, 3]" }, 3, 1 },
        { { "seed=[1, 2]", "window=[0, 3, 6]", "evict=[false, true]" }, 12, 1 },
        { { "frames=[6, 9]" }, 2, 2 },
    };
    struct kvr_config c;
    struct kvr_sweep s;
    int64_t at = kvr_predictions(), once, n;
    int n_cells;

    must_make(&c, &s, text, NULL);
    once = kvr_predictions() - at;
    n_cells = s.n_cells;
    ck_assert_int_gt(once, 40);
    drop(&c, &s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        at = kvr_predictions();
        must_make(&c, &s, text, cases[i].set);
        n = kvr_predictions() - at;
        ck_assert_int_eq(s.n_cells, n_cells * cases[i].times_cells);
        ck_assert_msg(n <= cases[i].times_work * once + once / 4, "%zu: %lld dry rollouts, %lld", i,
                      (long long)n, (long long)once);
        if (cases[i].times_work == 1)
            ck_assert_int_eq(n, once);
        drop(&c, &s);
    }
}
END_TEST

/* A sweep whose budgets would take longer to solve than allowed is refused before any dry rollout,
 * with the estimated time. */
START_TEST(too_long_to_solve)
{
    static const char text[] =
        "model: nano\n"
        "prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]\n"
        "methods: [BF16, {method: ROLLING_WINDOW, options: {frames: [fit 1, fit 2, fit 3]}}]\n"
        "frames: [6000, 9000]\nseed: 1\nbaselines: none\n";
    const int64_t before = kvr_predictions();
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_int_eq(make(&c, &s, text, NULL, SHA), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "a.yaml: choosing the option values for its 3 budgets") &&
                      strstr(kvr_error(), " s, at most 600 s are allowed"),
                  "%s", kvr_error());
    ck_assert_int_eq(kvr_predictions(), before);
    ck_assert_ptr_null(s.cell);
    kvr_config_free(&c);
}
END_TEST

/* Reruns of BF16 with jitter (controls) are added by default if they are a small part of the sweep.
 * `control` sets their number; 0 adds none. Default settings are not part of a key, so cells stored
 * earlier keep their keys. */
START_TEST(controls)
{
    static const char text[] =
        "model: nano\n"
        "prompts: [{id: p1, text: a large red disc bounces over a plain "
        "blue background}]\n"
        "methods: [BF16, RTN_INT8, RTN_INT4, RTN_INT2, KIVI_INT4, KIVI_INT2, "
        "QUAROT_KV_INT4, QUAROT_KV_INT2, PRQ_INT4]\nframes: 6\nseed: 5\nbaselines: none\n";
    static const struct {
        const char *set[3];
        int n_cells;
    } cases[] = {
        { { NULL }, 9 + 2 },
        { { "jitter=0" }, 9 },
        { { "control=0" }, 9 },
        { { "control=3" }, 9 + 3 },
        { { "control=3", "jitter=1" }, 2 * 9 },
        { { "methods=[BF16, RTN_INT4, RTN_INT2]" }, 3 },
        { { "methods=[BF16, RTN_INT4, RTN_INT2, KIVI_INT2]" }, 4 + 1 },
        { { "methods=[BF16, RTN_INT4, RTN_INT2]", "control=4" }, 3 + 4 },
        { { "forcing=[none, teacher]" }, 2 * 9 + 2 },
        { { "timing=true" }, 9 },
        { { "kind=probe" }, 9 },
    };
    struct kvr_config c, c0;
    struct kvr_sweep s, off;

    must_make(&c0, &off, text, (const char *const[]){ "jitter=0", NULL });
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must_make(&c, &s, text, cases[i].set);
        ck_assert_msg(s.n_cells == cases[i].n_cells, "%s: %d cells",
                      cases[i].set[0] ? cases[i].set[0] : "default", s.n_cells);
        for (int k = 0; k < s.n_cells && i < 4; k++) {
            if (k < off.n_cells)
                ck_assert_str_eq(s.cell[k].key, off.cell[k].key);
            else
                ck_assert(s.cell[k].set.jitter == k - off.n_cells + 1 && s.cell[k].baseline == 0 &&
                          strcmp(s.cell[k].name, "BF16") == 0);
        }
        drop(&c, &s);
    }
    drop(&c0, &off);
}
END_TEST

/* Reruns with the same jitter form their own group of cells. The group's BF16 cell has the BF16
 * cell without jitter as its baseline. Reruns with jitter are neither repeated nor probed. */
START_TEST(baselines_of_reruns)
{
    static const char text[] = "model: nano\n"
                               "prompts: [{id: p1, text: a large red disc bounces over a plain "
                               "blue background}]\n"
                               "methods: [BF16, RTN_INT4]\nframes: 6\nseed: 5\n";
    static const char *const draws[] = { "jitter=2", "repeats=2", "kind=[bench, probe]", NULL };
    static const int baseline[] = { 0, 0, 2, 2, 0, 4, 0, 6, 8, 8 };
    struct kvr_config c, c0;
    struct kvr_sweep s, plain;

    must_make(&c, &s, text, draws);
    ck_assert_int_eq(s.n_cells, 10);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(s.cell[i].baseline, baseline[i]);
    ck_assert_int_eq(s.cell[5].set.jitter, 1);
    ck_assert_int_eq(s.cell[7].set.jitter, 2);
    ck_assert_int_eq(s.cell[9].set.jitter, 0);
    /* The setting jitter_bits does not change the keys of cells without jitter. */
    must_make(&c0, &plain, text, (const char *const[]){ "jitter_bits=4", NULL });
    ck_assert_int_eq(plain.n_cells, 2);
    ck_assert_str_eq(plain.cell[1].key, s.cell[1].key);
    drop(&c0, &plain);
    /* If a filter selects a rerun, the baselines that the rerun needs are selected, too. */
    ck_assert_int_eq(kvr_sweep_select(&s, "name=RTN_INT4 & jitter=2", 0, 1), KVR_OK);
    for (int i = 0; i < 10; i++)
        ck_assert(s.cell[i].selected == (i == 7 || i == 6 || i == 0));
    drop(&c, &s);
}
END_TEST

static const struct {
    const char *override, *message;
} bad[] = {
    { "forcing=teached", "forcing=teached: " },
    { "jitter=[1, 2]", "jitter=[1, 2]: " },
    { "jitter_bits=25", "jitter_bits=25: " },
    { "frames=7", "frames=7: frames: 7 must be a multiple of 3 (frames per chunk of model nano)" },
    { "methods=[RTN_INT5]", "methods=[RTN_INT5]: " },
    { "device=gpu", "device=gpu: unknown device 'gpu', need cpu, cuda or emulated" },
    { "device=[cpu, cuda]", "device=[cpu, cuda]: expected text" },
    { "methods=[RTN_INT4@paper]", "methods=[RTN_INT4@paper]: " },
    { "methods=[{method: RTN_INT4, options: {bitz: 3}}]", "methods=" },
    { "methods=[{method: RTN_INT4, options: {bits: 99}}]", "methods=" },
    { "methods=[RTN_INT4, RTN_INT4]", "methods=[RTN_INT4, RTN_INT4]: method 'RTN_INT4' is listed" },
    { "methods=[RTN_INT4, {method: RTN_INT4, label: b}]",
      "methods=[RTN_INT4, {method: RTN_INT4, label: b}]: method 'b' equals 'RTN_INT4' under" },
    { "methods=[RTN_INT4, {method: RTN_INT4, options: {bits: [3, 4]}}]",
      "methods=[RTN_INT4, {method: RTN_INT4, options: {bits: [3, 4]}}]: method 'RTN_INT4 bits=4' "
      "equals 'RTN_INT4' under another label" },
    { "methods=[BF16, {method: BF16, label: b}]",
      "methods=[BF16, {method: BF16, label: b}]: method 'b' equals 'BF16' under another" },
    { "methods=[BF16, BF16]", "methods=[BF16, BF16]: method 'BF16' is listed twice" },
    { "methods=[RTN_INT2, {method: RTN_INT4, label: RTN_INT2}]", "methods=" },
    { "prompts=[{id: p1, text: a large red dics bounces}]",
      "prompts=[{id: p1, text: a large red dics bounces}]: prompt 'p1': " },
};

START_TEST(refusals)
{
    const char *overrides[] = { bad[_i].override, NULL };
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_int_eq(make(&c, &s, ONE, overrides, SHA), KVR_EINVAL);
    ck_assert_int_eq(s.n_cells, 0);
    ck_assert_msg(strncmp(kvr_error(), bad[_i].message, strlen(bad[_i].message)) == 0,
                  "'%s', expected '%s'", kvr_error(), bad[_i].message);
    kvr_config_free(&c);
}
END_TEST

START_TEST(devices_have_their_own_keys)
{
    static const char *const emulated[] = { "device=emulated", NULL };
    static const char *const cuda[] = { "device=cuda", NULL };
    const struct kvr_model_facts facts = { .name = "nano", .sha256 = SHA, .config = &model };
    struct kvr_config c, c2, c3, c4;
    struct kvr_sweep s, s2, s3, s4;

    must_make(&c, &s, ONE, NULL);
    must_make(&c2, &s2, ONE, emulated);
    must_make(&c3, &s3, ONE, cuda);
    ck_assert_str_eq(s.cell[1].set.device, "cpu");
    ck_assert_str_eq(s2.cell[1].set.device, "emulated");
    ck_assert_str_eq(s3.cell[1].set.device, "cuda");
    ck_assert_str_ne(s.cell[1].rollout, s2.cell[1].rollout);
    ck_assert_str_ne(s2.cell[1].rollout, s3.cell[1].rollout);
    /* Cells of different GPUs have different keys; the spec of a CPU cell names no device. */
    ck_assert_int_eq(kvr_config_read_text(&c4, ONE, "a.yaml", cuda), KVR_OK);
    snprintf(c4.device_is, sizeof c4.device_is, "NVIDIA X");
    memset(&s4, 0, sizeof s4);
    ck_assert_int_eq(kvr_sweep_make(&s4, &c4, &facts, 1), KVR_OK);
    ck_assert_str_ne(s4.cell[1].rollout, s3.cell[1].rollout);
    ck_assert_ptr_nonnull(strstr(s4.cell[1].spec, "\"device\":\"NVIDIA X\""));
    ck_assert_ptr_null(strstr(s.cell[1].spec, "\"device\""));
    drop(&c, &s);
    drop(&c2, &s2);
    drop(&c3, &s3);
    drop(&c4, &s4);
}
END_TEST

/* A refusal names its line and column in the file. */
START_TEST(errors_have_line_and_column)
{
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_int_eq(
        make(&c, &s, "model: nano\nsuite: moviegen-nano\nmethods:\n  - RTN_INT5\n", NULL, SHA),
        KVR_EINVAL);
    ck_assert_msg(strncmp(kvr_error(), "a.yaml:4:5: ", 12) == 0, "%s", kvr_error());
    kvr_config_free(&c);
}
END_TEST

START_TEST(impossible_is_a_cell)
{
    struct kvr_config c;
    struct kvr_sweep s;

    model.text_len++;
    must_make(&c, &s, ONE, NULL);
    ck_assert_int_eq(s.n_cells, 2);
    ck_assert(!s.cell[0].possible && !s.cell[1].possible);
    ck_assert_ptr_nonnull(strstr(s.cell[1].reason, "17 text tokens"));
    drop(&c, &s);
}
END_TEST

/* Without a decoder a rollout produces no frames, but its cells are still possible, because they
 * measure time and bytes. */
START_TEST(no_decoder_no_frames)
{
    struct kvr_config c;
    struct kvr_sweep s;

    must_make(&c, &s, ONE, NULL);
    ck_assert(!s.cell[0].no_frames && !s.cell[1].no_frames);
    drop(&c, &s);
    model.latent_is_rgb = false;
    must_make(&c, &s, ONE, NULL);
    ck_assert(s.cell[0].possible && s.cell[1].possible);
    ck_assert(s.cell[0].no_frames && s.cell[1].no_frames);
    drop(&c, &s);
}
END_TEST

/* For a model with random weights, text embeddings are generated from the prompt, so any prompt is
 * possible. A model cut to fewer layers or steps has other keys than the full model. */
START_TEST(cut_models_have_their_own_keys)
{
    static const char text[] = "model: nano\nprompts: [{id: p1, text: whatever}]\n"
                               "methods: [RTN_INT4]\nframes: 6\n";
    static const char *const cuts[][2] = {
        { NULL, NULL },           { "model_layers=2", NULL }, { "model_steps=1", NULL },
        { "compute=bf16", NULL }, { "graphs=true", NULL },    { "compute=f32", NULL }
    };
    static const char *const labels[] = { "nano",         "nano/layers=2",
                                          "nano/steps=1", "nano/compute=bf16",
                                          "nano",         "nano" };
    char key[6][KVR_KEY_LEN], group[6][KVR_KEY_LEN];
    struct kvr_config c;
    struct kvr_sweep s;

    model.random_weights = true;
    for (int i = 0; i < 6; i++) {
        must_make(&c, &s, text, cuts[i]);
        ck_assert(s.cell[1].possible);
        ck_assert_str_eq(s.cell[1].model_label, labels[i]);
        strcpy(key[i], s.cell[1].key);
        strcpy(group[i], s.cell[1].group);
        drop(&c, &s);
        for (int k = 0; k < i && i < 5; k++) {
            ck_assert_str_ne(key[i], key[k]);
            ck_assert_str_ne(group[i], group[k]);
        }
    }
    ck_assert_str_eq(key[0], key[5]); /* float32 is the default */
}
END_TEST

#define MANY                                                                                       \
    "model: nano\nsuite: moviegen-nano\nprompts: 8\nmethods: [BF16, RTN_INT4, RTN_INT2]\n"         \
    "frames: 6\n"

static int count(const struct kvr_sweep *s)
{
    int n = 0;

    for (int i = 0; i < s->n_cells; i++)
        n += s->cell[i].selected;
    return n;
}

static const struct {
    const char *text;
    int n; /* expected number of selected cells of 24, with baselines; -1: refused; -2: see below */
} filters[] = {
    { "method~^RTN", 24 },
    { "method=BF16", 8 },
    { "method = RTN_INT4", 16 },
    { "method~^RTN & prompt=mg03", 3 },
    { "prompt=3", 3 },
    { "prompt<=2 & method=BF16", 2 },
    { "prompt!=3 & method!=RTN_INT2", 14 },
    { "text~'red' & method=BF16", -2 }, /* the test computes which cells */
    { "seed>=1000 & seed<1002", 6 },
    { "frames=6", 24 },
    { "frames>6", 0 },
    { "family=RTN", 24 },
    { "evict=false", 24 },
    { "method~\"INT4&\"", 0 },
    { "methud=BF16", -1 },
    { "method", -1 },
    { "method~[", -1 },
    /* regcomp() of POSIX allocated gigabytes for this expression */
    { "method~a++++++++++++++++++++++++++++++++++++++++", 0 },
    { "method~((a{99}){99}){99}", -1 },
    { "seed<many", -1 },
    { "", -1 },
    { "method=BF16 &", -1 },
};

START_TEST(filter)
{
    struct kvr_config c;
    struct kvr_sweep s;
    enum kvr_status st;

    must_make(&c, &s, MANY, NULL);
    st = kvr_sweep_select(&s, filters[_i].text, 0, 1);
    if (filters[_i].n == -1) {
        ck_assert_int_eq(st, KVR_EINVAL);
        ck_assert_msg(strncmp(kvr_error(), "filter '", 8) == 0, "%s", kvr_error());
    } else {
        ck_assert_msg(st == KVR_OK, "%s", kvr_error());
        if (filters[_i].n >= 0)
            ck_assert_msg(count(&s) == filters[_i].n, "%s: %d", filters[_i].text, count(&s));
        for (int i = 0; i < s.n_cells; i++)
            if (filters[_i].n == -2)
                ck_assert_int_eq(s.cell[i].selected,
                                 strstr(s.cell[i].prompt->text, "red") != NULL &&
                                     strcmp(s.cell[i].label, "BF16") == 0);
    }
    drop(&c, &s);
}
END_TEST

/* The cost of shard i of n; adds 1 to `times` of each of its cells. */
static double shard_cost(struct kvr_sweep *s, int i, int n, int *times)
{
    double cost = 0;

    ck_assert_int_eq(kvr_sweep_select(s, NULL, i, n), KVR_OK);
    for (int k = 0; k < s->n_cells; k++) {
        times[k] += s->cell[k].selected;
        cost += s->cell[k].selected ? s->cell[k].cost : 0;
        ck_assert(!s->cell[k].selected || s->cell[s->cell[k].baseline].selected);
    }
    return cost;
}

/* Every cell is in exactly one shard; only a baseline may be in several. */
START_TEST(shards)
{
    struct kvr_config c;
    struct kvr_sweep s;
    int times[64] = { 0 };

    must_make(&c, &s, MANY, NULL);
    for (int i = 0; i < 3; i++)
        shard_cost(&s, i, 3, times);
    for (int k = 0; k < s.n_cells; k++)
        ck_assert(times[k] == 1 || (times[k] > 1 && s.cell[k].baseline == k));
    ck_assert_int_eq(kvr_sweep_select(&s, NULL, 3, 3), KVR_EINVAL);
    ck_assert_int_eq(kvr_sweep_select(&s, NULL, -1, 3), KVR_EINVAL);
    drop(&c, &s);
}
END_TEST

/* Cells of unequal cost: a long one costs more than four short ones. Each of n shards must get 1/n
 * of the cost, give or take a cell and a baseline. This holds also if all cells have one prompt. */
static const struct {
    const char *config;
    int n_shards;
} unlike[] = {
    { "model: nano\nframes: [3, 6, 21, 42]\nprompts:\n"
      "  - {id: a, text: a large red disc bounces over a plain blue background}\n"
      "  - {id: b, text: a large green ring stays still over a plain white background}\n"
      "methods: [BF16, RTN_INT4, RTN_INT2, KIVI_INT4, KIVI_INT2, PRQ_INT4, PRQ_INT2]\n",
      4 },
    { "model: nano\nframes: 6\n"
      "prompts: [{id: a, text: a large red disc bounces over a plain blue background}]\n"
      "methods: [BF16, RTN_INT4, RTN_INT2, KIVI_INT4, KIVI_INT2, PRQ_INT4, PRQ_INT2, "
      "QUAROT_KV_INT4, QUAROT_KV_INT2, RTN_INT8, AGE_TIER_INT4]\n",
      5 },
};

START_TEST(shards_cost_the_same)
{
    struct kvr_config c;
    struct kvr_sweep s;
    int times[256] = { 0 };
    double all = 0, largest = 0, cost;

    must_make(&c, &s, unlike[_i].config, NULL);
    ck_assert_int_le(s.n_cells, 256);
    for (int k = 0; k < s.n_cells; k++) {
        all += s.cell[k].cost;
        largest = s.cell[k].cost > largest ? s.cell[k].cost : largest;
    }
    for (int i = 0; i < unlike[_i].n_shards; i++) {
        cost = shard_cost(&s, i, unlike[_i].n_shards, times);
        ck_assert_msg(fabs(cost - all / unlike[_i].n_shards) <= 2.01 * largest,
                      "shard %d: %g of %g, a cell at most %g", i, cost, all, largest);
    }
    for (int k = 0; k < s.n_cells; k++)
        ck_assert_int_ge(times[k], 1);
    drop(&c, &s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep");
    TCase *tc = tcase_create("sweep");

    tcase_add_checked_fixture(tc, read_model, free_model);
    tcase_add_test(tc, baseline_is_implied);
    tcase_add_test(tc, pinned);
    tcase_add_test(tc, any_setting_changes_the_key);
    tcase_add_loop_test(tc, redundant_options_give_the_same_cell, 0,
                        sizeof same_cells / sizeof *same_cells);
    tcase_add_test(tc, options_and_solutions_are_in_the_spec);
    tcase_add_test(tc, metrics_do_not_change_the_rollout_hash);
    tcase_add_test(tc, kinds_have_their_own_keys);
    tcase_add_test(tc, probe_prompts_limits_probes);
    tcase_add_test(tc, product);
    tcase_add_test(tc, added_baselines);
    tcase_add_test(tc, solved_once);
    tcase_add_test(tc, too_long_to_solve);
    tcase_add_test(tc, controls);
    tcase_add_test(tc, baselines_of_reruns);
    tcase_add_loop_test(tc, refusals, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, devices_have_their_own_keys);
    tcase_add_test(tc, errors_have_line_and_column);
    tcase_add_test(tc, impossible_is_a_cell);
    tcase_add_test(tc, no_decoder_no_frames);
    tcase_add_test(tc, cut_models_have_their_own_keys);
    tcase_add_loop_test(tc, filter, 0, sizeof filters / sizeof *filters);
    tcase_add_test(tc, shards);
    tcase_add_loop_test(tc, shards_cost_the_same, 0, sizeof unlike / sizeof *unlike);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
