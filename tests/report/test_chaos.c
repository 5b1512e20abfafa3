/* test_chaos.c - in 100 simulated sweeps, a method that differs from BF16 only by chaos is not
 * reported as different, and a method with a larger loss is. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/report/table/chaos.h"
#include "harness/report/claims/claims.h"
#include "harness/report/pareto/pareto.h"
#include "harness/report/plot/plot.h"
#include "harness/report/report.h"
#include "harness/report/stat_tables.h"
#include "harness/store/setting.h"
#include "harness/store/store.h"
#include "tests/rows.h"
#include "tests/suite.h"

enum { PROMPTS = 20, SEEDS = 2, DRAWS = 4, SWEEPS = 100 };

static const char *const methods[] = { "BF16", "TWIN", "WORSE" };
static char dir[64], db[128];
static sqlite3 *raw;

static void exec(const char *sql)
{
    char *why = NULL;

    ck_assert_msg(sqlite3_exec(raw, sql, NULL, NULL, &why) == SQLITE_OK, "%s: %s", sql, why);
}

/* Decibels per chunk by which the error of method m grows. */
static double growth(int m)
{
    return m == 0 ? 0.25 : m == 1 ? 0.5 : 1.5;
}

static void put(struct kvr_store *s, const char *session, int m, int prompt, int seed, int draw,
                const char *forcing)
{
    enum { CHUNKS = 5 };
    double chunk[CHUNKS];
    const struct kvr_row_metric metric[] = {
        { .name = "psnr",
          .unit = "dB",
          .value = forcing[0] == 't' ? 53 : 50,
          .n = 6,
          .extra = NAN },
        { .name = "psnr.drift",
          .unit = "dB",
          .value = -1,
          .n = 6,
          .extra = 1,
          .n_series = CHUNKS,
          .series = chunk },
        { .name = "sharpness",
          .unit = "levels^2",
          .value = 100 + prompt - (m == 2 ? 5 : 0) +
                   0.1 * ((7 * draw + 3 * prompt + seed + 2 * m) % 5 - 2),
          .n = 6,
          .extra = NAN },
        { .name = "psnr.last", .unit = "dB", .value = 47 - growth(m), .n = 2, .extra = 4 },
    };
    struct kvr_settings set;
    json_t *spec = json_object();
    char key[64], baseline[64], id[16], *text;

    kvr_settings_defaults(&set);
    set.frames = 42;
    set.window = 21;
    set.seed = 100 * seed + prompt;
    set.jitter = draw;
    set.forcing = forcing;
    /* PSNR per chunk in dB. In a rollout without jitter (draw 0) chunk 0 equals the reference. The
     * PSNR of all other chunks differs by 0.1 dB from prompt to prompt. */
    for (int c = 0; c < CHUNKS; c++)
        chunk[c] = c == 0 && draw == 0 ? 100 : 50 - growth(m) * c + 0.1 * prompt;
    ck_assert_int_eq(kvr_settings_write_json(&set, false, spec), KVR_OK);
    ck_assert_int_eq(kvr_settings_write_json(&set, true, spec), KVR_OK);
    text = json_dumps(spec, JSON_SORT_KEYS | JSON_COMPACT);
    snprintf(key, sizeof key, "%d-%d-%d-%d%s", m, prompt, seed, draw,
             forcing[0] == 't' ? "-t" : "");
    snprintf(baseline, sizeof baseline, "0-%d-%d-%d%s", prompt, seed, m ? draw : 0,
             forcing[0] == 't' ? "-t" : "");
    snprintf(id, sizeof id, "p%02d", prompt);
    {
        struct kvr_row r = example_row(key, session, KVR_OUT_OK);

        r.baseline = baseline;
        r.is_baseline = m == 0 && draw == 0;
        r.spec = text;
        r.method = r.name = methods[m];
        r.prompt_id = id;
        r.nominal_bytes = m ? 250 : 1000;
        r.n_metrics = 4;
        r.metric = metric;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    }
    free(text);
    json_decref(spec);
}

/* Stores the cells of a sweep; draw_values() replaces their PSNR in each simulated sweep. */
static void make_sweep(void)
{
    static char arg0[] = "kvreel";
    char *argv[] = { arg0, NULL };
    struct kvr_session x;
    struct kvr_store *s;

    strcpy(dir, "/tmp/kvr_chaos_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_session_gather(&x, 1, argv, "a.yaml", "methods: []\n", 1), KVR_OK);
    ck_assert_int_eq(kvr_store_session(s, &x), KVR_OK);
    for (int m = 0; m < 3; m++)
        for (int p = 0; p < PROMPTS; p++)
            for (int seed = 0; seed < SEEDS; seed++)
                for (int draw = 0; draw <= DRAWS; draw++)
                    put(s, x.id, m, p, seed, draw, "none");
    for (int m = 0; m < 3; m++)
        for (int p = 0; p < PROMPTS; p++)
            put(s, x.id, m, p, 0, 0, "teacher");
    kvr_session_free(&x);
    kvr_store_close(&s);
    ck_assert_int_eq(sqlite3_open(db, &raw), SQLITE_OK);
    exec("PRAGMA synchronous = OFF");
}

static void drop_sweep(void)
{
    char cmd[128];

    sqlite3_close(raw);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Generates PSNR values in dB: mean 58, standard deviation 5 between prompts and 2 between seeds.
 * Every rollout adds `strays` times a random number with mean 0 and a long tail towards low PSNR.
 * Method WORSE is 0.5 dB lower. TWIN stands for BF16 with another order of summation: its distance
 * from the BF16 rollout has the distribution of BF16's reruns. */
static void draw_values(uint64_t seed, double strays)
{
    float of_prompt[PROMPTS], of_seed[SEEDS], z[3 * (DRAWS + 1)];
    sqlite3_stmt *st;

    kvr_normal(of_prompt, PROMPTS, seed, KVR_RNG_TEST, 0, 0, 0);
    ck_assert_int_eq(
        sqlite3_prepare_v2(raw, "UPDATE metric SET value = ?1 WHERE cell = ?2 AND name = 'psnr'",
                           -1, &st, NULL),
        SQLITE_OK);
    exec("BEGIN");
    for (int p = 0; p < PROMPTS; p++) {
        kvr_normal(of_seed, SEEDS, seed, KVR_RNG_TEST, 1, (uint32_t)p, 0);
        for (int s = 0; s < SEEDS; s++) {
            kvr_uniform(z, 3 * (DRAWS + 1), seed, KVR_RNG_TEST, 2, (uint32_t)(p * SEEDS + s), 0);
            for (int i = 0; i < 3 * (DRAWS + 1); i++) {
                const int m = i / (DRAWS + 1), d = i % (DRAWS + 1);
                const double moved = 58 + 5 * (double)of_prompt[p] + 2 * (double)of_seed[s] +
                                     strays * (1 + log1p(-(double)z[i]));
                char key[64];

                snprintf(key, sizeof key, "%d-%d-%d-%d", m, p, s, d);
                sqlite3_bind_double(st, 1, i == 0 ? 100 : moved - (m == 2) * 0.5);
                sqlite3_bind_text(st, 2, key, -1, SQLITE_TRANSIENT);
                ck_assert_int_eq(sqlite3_step(st), SQLITE_DONE);
                sqlite3_reset(st);
            }
        }
    }
    exec("COMMIT");
    sqlite3_finalize(st);
}

static const char *cell_of(const struct kvr_table *t, const char *method, const char *column)
{
    const int name = kvr_table_find(t, "method"), at = kvr_table_find(t, column);

    ck_assert_int_ge(at, 0);
    for (int i = 0; i < t->n_rows; i++)
        if (strcmp(kvr_table_text(t, i, name), method) == 0)
            return kvr_table_text(t, i, at);
    ck_abort_msg("no row of %s", method);
}

static double number_of(const struct kvr_table *t, const char *method, const char *column)
{
    const int name = kvr_table_find(t, "method"), at = kvr_table_find(t, column);

    for (int i = 0; at >= 0 && i < t->n_rows; i++)
        if (strcmp(kvr_table_text(t, i, name), method) == 0)
            return kvr_table_number(t, i, at);
    return NAN;
}

START_TEST(chaos_alone_is_not_reported)
{
    const struct kvr_stat_options o = {
        .db = db, .metric = "psnr", .against = "BF16", .level = 0.95
    };
    int twins = 0, found = 0;

    for (int i = 0; i < SWEEPS; i++) {
        struct kvr_table *t;

        draw_values((uint64_t)i + 1, 1.0);
        ck_assert_msg(kvr_stat_paired(&t, &o) == KVR_OK, "%s", kvr_error());
        twins += strcmp(cell_of(t, "TWIN", "beyond_chaos"), "no") == 0;
        found += strcmp(cell_of(t, "WORSE", "beyond_chaos"), "yes") == 0;
        /* `mean` in BF16's row is the chaos floor; `jitter` is the spread of a method's reruns */
        if (i == 0) {
            const double floor = number_of(t, "BF16", "mean"),
                         jitter = number_of(t, "TWIN", "jitter");

            ck_assert_msg(floor > 50 && floor < 66, "floor %g", floor);
            ck_assert_msg(jitter > 0.8 && jitter < 1.25, "jitter %g", jitter);
        }
        kvr_table_close(&t);
    }
    ck_assert_msg(twins >= 93, "%d of %d twins taken for BF16", twins, SWEEPS);
    ck_assert_msg(found >= 93, "%d of %d losses found", found, SWEEPS);
}
END_TEST

/* Without reruns of BF16 no method can be compared with the chaos floor; the report says so. */
START_TEST(without_reruns)
{
    const struct kvr_stat_options o = {
        .db = db, .metric = "psnr", .against = "BF16", .level = 0.95
    };
    struct kvr_table *t;
    bool found = false;
    double margin;

    draw_values(1, 1.0);
    exec("PRAGMA foreign_keys = ON; DELETE FROM cell WHERE jitter > 0");
    ck_assert_msg(kvr_stat_paired(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(cell_of(t, "WORSE", "beyond_chaos"), "");
    kvr_table_close(&t);
    ck_assert_msg(kvr_report_table(&t, db, "summary") == KVR_OK, "%s", kvr_error());
    found = strstr(t->note, "no BF16 reruns with perturbed noise exist");
    ck_assert(found);
    found = strstr(t->note, "missing baselines: INT8 (INT8_PTH), FP8 (FP8_PTH), BF16 over");
    ck_assert(found);
    kvr_table_close(&t);
    exec("UPDATE cell SET name = 'FP8_PTH' WHERE name <> 'BF16'");
    ck_assert_msg(kvr_report_table(&t, db, "summary") == KVR_OK, "%s", kvr_error());
    found = strstr(t->note, "missing baselines: INT8 (INT8_PTH), BF16 over");
    ck_assert_msg(found, "%s", t->note);
    kvr_table_close(&t);
    ck_assert_int_eq(kvr_chaos_margin(&margin, db, "psnr"), KVR_OK);
    ck_assert(isnan(margin));
}
END_TEST

/* The Pareto front uses the margin of chaos.h, computed from the methods' own reruns. A gain below
 * the margin does not count. */
START_TEST(fronts_use_the_margin)
{
    struct kvr_pareto_options o = { .db_path = db, .objectives = "psnr_db:max,compression:max" };
    struct kvr_table *t;
    double margin, expected;

    draw_values(3, 1.0);
    ck_assert_int_eq(kvr_chaos_margin(&margin, db, "psnr"), KVR_OK);
    expected = 1.96 * sqrt(2.0) / sqrt(PROMPTS * SEEDS * (DRAWS + 1));
    ck_assert_msg(fabs(margin / expected - 1) < 0.15, "margin %g, about %g", margin, expected);
    /* At first WORSE is dominated. With ten times the chaos, 0.5 dB is below the margin and WORSE
     * is no longer dominated. */
    ck_assert_msg(kvr_pareto(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(cell_of(t, "WORSE", "verdict"), "dominated");
    ck_assert_str_eq(cell_of(t, "BF16", "verdict"), "front");
    kvr_table_close(&t);
    draw_values(3, 10.0);
    ck_assert_msg(kvr_pareto(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_str_ne(cell_of(t, "WORSE", "verdict"), "dominated");
    kvr_table_close(&t);
    /* A margin set by the user replaces the computed one. */
    draw_values(3, 1.0);
    o.margins = "psnr_db=2";
    ck_assert_msg(kvr_pareto(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(cell_of(t, "WORSE", "verdict"), "front");
    kvr_table_close(&t);
}
END_TEST

/* The report names a prompt whose BF16 rollout is far from one of its reruns. */
START_TEST(unstable_prompts_are_named)
{
    struct kvr_table *t;
    bool found = false;

    draw_values(4, 1.0);
    exec("UPDATE metric SET value = 22 WHERE cell = '0-7-1-2'");
    ck_assert_msg(kvr_report_table(&t, db, "summary") == KVR_OK, "%s", kvr_error());
    /* forced rollouts have their own rows, reruns have none */
    ck_assert_int_eq(t->n_rows, 2 * 3);
    found = strstr(
        t->note,
        "prompts whose BF16 reruns with perturbed noise diverge from the BF16 rollout, so their "
        "fidelity is unreliable (in parentheses: lowest PSNR of a rerun): p07 (22.0 dB)");
    ck_assert(found);
    ck_assert(number_of(t, "TWIN", "psnr_floor") > 50);
    ck_assert(number_of(t, "TWIN", "psnr_jitter") > 0.8);
    kvr_table_close(&t);
}
END_TEST

/* The note has room for every value that a REAL column can hold: 1e300 has 301 digits. */
START_TEST(huge_values_fit_into_the_note)
{
    struct kvr_table *t;
    bool found = false;

    draw_values(4, 1.0);
    exec("UPDATE metric SET value = 1e300 WHERE name = 'psnr' AND cell LIKE '0-%-%-1'");
    ck_assert_msg(kvr_report_table(&t, db, "summary") == KVR_OK, "%s", kvr_error());
    found = strstr(t->note, " dB to BF16 without perturbation; methods that are closer to BF16 ") &&
            strlen(strstr(t->note, " have a PSNR of ")) > 300;
    ck_assert_msg(found, "%s", t->note);
    kvr_table_close(&t);
}
END_TEST

static double of_window(const struct kvr_table *t, const char *window, const char *method,
                        const char *column)
{
    const int w = kvr_table_find(t, "window"), name = kvr_table_find(t, "method");

    for (int i = 0; i < t->n_rows; i++)
        if (strcmp(kvr_table_text(t, i, w), window) == 0 &&
            strcmp(kvr_table_text(t, i, name), method) == 0)
            return kvr_table_number(t, i, kvr_table_find(t, column));
    ck_abort_msg("no row of %s, %s", window, method);
}

/* The chaos floor of a window of frames is computed from BF16's reruns over the same frames. */
START_TEST(windows)
{
    const struct kvr_stat_options o = { .db = db, .metric = "psnr", .level = 0.95 };
    struct kvr_table *t;
    const double mean = 0.1 * (PROMPTS - 1) / 2;

    ck_assert_msg(kvr_stat_windows(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert(fabs(of_window(t, "chunk 3", "WORSE", "mean") - (50 - 3 * 1.5 + mean)) < 1e-9);
    ck_assert(fabs(of_window(t, "chunk 3", "WORSE", "floor") - (50 - 3 * 0.25 + mean)) < 1e-9);
    ck_assert(of_window(t, "chunk 3", "WORSE", "lo") < of_window(t, "chunk 3", "WORSE", "mean"));
    ck_assert(of_window(t, "last third", "TWIN", "mean") == 46.5);
    ck_assert(of_window(t, "last third", "TWIN", "floor") == 46.75);
    for (int i = 0; i < t->n_rows; i++) {
        const char *verdict = kvr_table_text(t, i, kvr_table_find(t, "beyond_chaos"));
        const char *method = kvr_table_text(t, i, kvr_table_find(t, "method"));

        if (strcmp(kvr_table_text(t, i, kvr_table_find(t, "window")), "chunk 3") == 0)
            ck_assert_str_eq(verdict, strcmp(method, "BF16") == 0 ? "" : "yes");
    }
    kvr_table_close(&t);
}
END_TEST

/* Compares the injected error, the propagated error and the growth rate of each method with the
 * values of growth(). Chunk 0, which equals the reference, does not enter the rate. */
START_TEST(errors_grow)
{
    const struct kvr_stat_options o = { .db = db, .metric = "psnr", .level = 0.95 };
    struct kvr_table *t;

    ck_assert_msg(kvr_stat_growth(&t, &o) == KVR_OK, "%s", kvr_error());
    for (int m = 0; m < 3; m++) {
        ck_assert(fabs(number_of(t, methods[m], "rate") + growth(m)) < 1e-9);
        ck_assert(number_of(t, methods[m], "rate_lo") <= -growth(m) + 1e-9);
        ck_assert(number_of(t, methods[m], "rate_hi") >= -growth(m) - 1e-9);
        ck_assert(fabs(number_of(t, methods[m], "factor") - pow(10, growth(m) / 20)) < 1e-9);
    }
    ck_assert(number_of(t, "WORSE", "put_in") == 53);
    ck_assert(number_of(t, "WORSE", "free") == 50);
    ck_assert(number_of(t, "WORSE", "propagated") == -3);
    kvr_table_close(&t);
}
END_TEST

/* If a metric is no distance from BF16, the table compares a method's paired difference from BF16
 * with the spread of BF16's reruns. */
START_TEST(distribution)
{
    const struct kvr_stat_options o = { .db = db, .level = 0.95 };
    struct kvr_table *t;

    ck_assert_msg(kvr_stat_distribution(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(t->n_rows, 2);
    ck_assert(fabs(number_of(t, "WORSE", "difference") + 5) < 0.2);
    ck_assert_str_eq(cell_of(t, "WORSE", "beyond_chaos"), "yes");
    ck_assert_str_eq(cell_of(t, "TWIN", "beyond_chaos"), "no");
    ck_assert(number_of(t, "TWIN", "control") > 0.05 && number_of(t, "TWIN", "control") < 0.3);
    kvr_table_close(&t);
}
END_TEST

/* TWIN ranks above WORSE, also with the first or the second half of the seeds, and with odd or even
 * prompts only. With forced rollouts (column put_in) the two methods are equal. */
START_TEST(sensitivity)
{
    const struct kvr_stat_options o = { .db = db, .metric = "psnr", .level = 0.95 };
    struct kvr_table *t;

    draw_values(6, 0.5);
    ck_assert_msg(kvr_stat_sensitivity(&t, &o) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(t->n_rows, 1);
    ck_assert_str_eq(cell_of(t, "TWIN", "above"), "WORSE");
    ck_assert_str_eq(cell_of(t, "TWIN", "seeds_1"), "yes");
    ck_assert_str_eq(cell_of(t, "TWIN", "seeds_2"), "yes");
    ck_assert_str_eq(cell_of(t, "TWIN", "half_1"), "yes");
    ck_assert_str_eq(cell_of(t, "TWIN", "half_2"), "yes");
    ck_assert_str_eq(cell_of(t, "TWIN", "put_in"), "no");
    ck_assert_str_eq(cell_of(t, "TWIN", "other_reading"), "-");
    ck_assert_str_eq(cell_of(t, "TWIN", "same_side"), "4 of 5");
    kvr_table_close(&t);
    /* Lowers TWIN's PSNR by 9 dB in the second seed. WORSE then ranks above TWIN, but below TWIN in
     * column seeds_1, which contains the first seed only. */
    exec("UPDATE metric SET value = value - 9 WHERE name = 'psnr' AND cell LIKE '1-%-1-%'");
    ck_assert_int_eq(kvr_stat_sensitivity(&t, &o), KVR_OK);
    ck_assert_str_eq(cell_of(t, "WORSE", "above"), "TWIN");
    ck_assert_str_eq(cell_of(t, "WORSE", "seeds_1"), "reversed");
    kvr_table_close(&t);
}
END_TEST

static bool in_file(const char *name, const char *text)
{
    static char got[1 << 16];
    char path[192];
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    got[n] = 0;
    return strstr(got, text);
}

/* The figure shades the range within the chaos floor, and its data file states each method's
 * probability of being on the Pareto front. Without reruns nothing is shaded. */
START_TEST(figures_shade_the_floor)
{
    struct kvr_plot_result r;

    draw_values(7, 1.0);
    ck_assert_msg(kvr_plot(db, "psnr", dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r) ==
                      KVR_OK,
                  "%s", kvr_error());
    ck_assert(in_file("psnr.gp", "set object 1 rectangle from graph 0, first 5"));
    ck_assert(in_file("psnr.gp", "chaos floor"));
    ck_assert(in_file("psnr.tsv", "p_front"));
    exec("PRAGMA foreign_keys = ON; DELETE FROM cell WHERE jitter > 0");
    ck_assert_int_eq(kvr_plot(db, "psnr", dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r),
                     KVR_OK);
    ck_assert(!in_file("psnr.gp", "set object 1"));
}
END_TEST

static const char ledger[] =
    "sources: {here: this test}\n"
    "claims:\n"
    "  - {id: a, source: here, at: '1', says: x, more: {metric: psnr, of: TWIN, than: WORSE}}\n"
    "  - {id: b, source: here, at: '1', says: x, less: {metric: psnr, of: TWIN, than: WORSE}}\n"
    "  - {id: c, source: here, at: '1', says: x, more: {metric: psnr, of: TWIN, than: WORSE, by: "
    "1.9}}\n"
    "  - {id: d, source: here, at: '1', says: x, alike: {metric: psnr, of: TWIN, than: WORSE, "
    "within: 4}}\n"
    "  - {id: e, source: here, at: '1', says: x, alike: {metric: psnr, of: TWIN, than: WORSE, "
    "within: 0.1}}\n"
    "  - {id: f, source: here, at: '1', says: x, more: {metric: psnr, of: GONE, than: WORSE}}\n"
    "  - {id: g, source: here, at: '1', says: x, sql: 'SELECT 1, 1, 5'}\n"
    "  - {id: h, source: here, at: '1', says: x, command: kvreel run, why: needs a GPU}\n"
    "  - {id: i, source: here, at: '1', says: x, ratio: {method: RTN_INT4, is: '3.20'}}\n"
    "  - {id: j, source: here, at: '1', says: x, ratio: {method: RTN_INT4, is: '3.21'}}\n"
    "  - {id: m, source: here, at: '1', says: x, more: {metric: psnr, of: TWIN, than: WORSE, by: "
    "2, margin: 1.5}}\n"
    "  - {id: k, source: here, at: '1', says: x, less: {metric: psnr, of: WORSE, by: 90}}\n"
    "  - {id: l, source: here, at: '1', says: x, more: {metric: psnr, of: WORSE, by: 90}}\n";

static const struct {
    const char *id, *verdict, *why;
} verdicts[] = {
    { "a", "holds", "" },
    { "b", "does not hold", "" },
    { "c", "cannot be told here", "are needed" },
    { "d", "holds", "" },
    { "e", "does not hold", "" },
    { "f", "cannot be told here", "no cells that this claim compares" },
    { "g", "cannot be told here", "1 prompts" },
    { "h", "cannot be told here", "needs a GPU; settled by: kvreel run" },
    { "i", "holds", "arithmetic" },
    { "j", "does not hold", "arithmetic" },
    { "m", "equal", "" },
    { "k", "holds", "" },
    { "l", "does not hold", "" },
};

/* A claim's verdict is holds, does not hold, equal, or cannot be told; each comes with its
 * reason. */
START_TEST(ledger_of_claims)
{
    struct kvr_ledger l;
    struct kvr_table *t;
    char path[160];
    FILE *f;

    draw_values(5, 1.0);
    snprintf(path, sizeof path, "%s/claims.yaml", dir);
    f = fopen(path, "w");
    ck_assert(f && fputs(ledger, f) >= 0 && fclose(f) == 0);
    /* The methods differ by 2 dB, and each is as far from BF16 as BF16's reruns are. The chaos
     * margin is 3 dB, so the verdict is `equal`. */
    exec("UPDATE metric SET value = value - 1.5 WHERE name = 'psnr' AND cell LIKE '2-%'");
    ck_assert_msg(kvr_claims(&l, path, db, &(struct kvr_claims_options){ 0 }) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(l.claim[0].verdict, KVR_CLAIM_EQUAL);
    ck_assert_double_eq_tol(l.claim[0].margin, 10 * log10(2), 0.2);
    kvr_ledger_free(&l);
    /* Lowers both methods to 25 dB below the floor, where chaos no longer matters: the margin is
     * 0.25 dB. */
    exec("UPDATE metric SET value = value - 25 WHERE name = 'psnr' AND (cell LIKE '1-%' OR cell "
         "LIKE "
         "'2-%')");
    ck_assert_msg(kvr_claims(&l, path, db, &(struct kvr_claims_options){ 0 }) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_double_eq(l.claim[0].margin, 0.25);
    ck_assert_int_eq(kvr_ledger_table(&l, &t), KVR_OK);
    ck_assert_int_eq(t->n_rows, (int)(sizeof verdicts / sizeof verdicts[0]));
    for (int i = 0; i < t->n_rows; i++) {
        ck_assert_str_eq(kvr_table_text(t, i, kvr_table_find(t, "id")), verdicts[i].id);
        ck_assert_msg(
            !strcmp(kvr_table_text(t, i, kvr_table_find(t, "verdict")), verdicts[i].verdict),
            "%s: %s, margin %g, %g [%g, %g], %s", verdicts[i].id,
            kvr_table_text(t, i, kvr_table_find(t, "verdict")), l.claim[i].margin,
            l.claim[i].figure, l.claim[i].lo, l.claim[i].hi, l.claim[i].why);
        ck_assert_ptr_nonnull(
            strstr(kvr_table_text(t, i, kvr_table_find(t, "why")), verdicts[i].why));
    }
    kvr_table_close(&t);
    kvr_ledger_free(&l);
    /* Without a database only the two claims about a computed compression ratio have a verdict. */
    ck_assert_int_eq(kvr_claims(&l, path, NULL, &(struct kvr_claims_options){ 0 }), KVR_OK);
    ck_assert_int_eq(l.n[KVR_CLAIM_HOLDS], 1);
    ck_assert_int_eq(l.n[KVR_CLAIM_NOT], 1);
    kvr_ledger_free(&l);
}
END_TEST

static struct kvr_ledger judged(const char *text, int most)
{
    struct kvr_ledger l;
    char path[160];
    FILE *f;

    snprintf(path, sizeof path, "%s/claims.yaml", dir);
    f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    ck_assert_msg(
        kvr_claims(&l, path, db, &(struct kvr_claims_options){ .most = most, .elsewhere = true }) ==
            KVR_OK,
        "%s", kvr_error());
    return l;
}

/* If one of a prompt's BF16 reruns is far from its BF16 rollout, claims about distances from BF16
 * leave the prompt out and list it in two_videos. Claims about other metrics use the prompt. With
 * `suite`, a claim uses only the prompts of that suite. The column `where` states the verdict under
 * a teacher. */
START_TEST(claims_choose_prompts)
{
    static const char text[] =
        "sources: {here: this test}\n"
        "claims:\n"
        "  - {id: a, source: here, at: '1', says: x, more: {metric: psnr, of: TWIN, than: WORSE}}\n"
        "  - {id: b, source: here, at: '1', says: x, more: {metric: peak_bytes, of: TWIN, than: "
        "WORSE}}\n"
        "  - {id: c, source: here, at: '1', says: x, more: {metric: psnr, of: TWIN, than: WORSE, "
        "suite: none}}\n";
    struct kvr_ledger l;

    draw_values(4, 1.0);
    l = judged(text, 0);
    ck_assert_int_eq(l.claim[0].s.n, PROMPTS);
    ck_assert_str_eq(l.two_videos, "");
    kvr_ledger_free(&l);
    exec("UPDATE metric SET value = 22 WHERE cell = '0-7-1-2'");
    l = judged(text, 0);
    ck_assert_int_eq(l.claim[0].s.n, PROMPTS - 1);
    ck_assert_int_eq(l.claim[1].s.n, l.claim[1].tested ? PROMPTS : 0);
    ck_assert_int_eq(l.claim[2].s.n, 0);
    ck_assert_str_eq(l.two_videos, "p07 (22.0 dB)");
    ck_assert_msg(strstr(l.claim[0].where, "under a teacher: "), "%s", l.claim[0].where);
    kvr_ledger_free(&l);
}
END_TEST

/* Claim a has 30 values with a mean 0.01 beyond the margin. It is futile if at most 100 prompts can
 * be run, and open if 100000 can; n_needed is the same. The mean of claim b equals the margin, so
 * no number of prompts is enough. */
START_TEST(claims_may_be_futile)
{
    static const char text[] = "sources: {here: this test}\n"
                               "claims:\n"
                               "  - {id: a, source: here, at: '1', says: x, margin: 0.1, sql: "
                               "'WITH RECURSIVE i(n) AS (SELECT 1 "
                               "UNION ALL SELECT n + 1 FROM i WHERE n < 30) SELECT n, n, 0.11 + "
                               "iif(n % 2, 0.1, -0.1) FROM "
                               "i'}\n"
                               "  - {id: b, source: here, at: '1', says: x, margin: 0.25, sql: "
                               "'WITH RECURSIVE i(n) AS (SELECT "
                               "1 UNION ALL SELECT n + 1 FROM i WHERE n < 30) SELECT n, n, 0.25 + "
                               "iif(n % 2, 0.5, -0.5) FROM "
                               "i'}\n";
    struct kvr_ledger l = judged(text, 100);
    const double needed = l.claim[0].n_needed;

    ck_assert_int_eq(l.claim[0].verdict, KVR_CLAIM_FUTILE);
    ck_assert_msg(needed > 500 && needed < 5000, "%g", needed);
    ck_assert_int_eq(l.claim[1].verdict, KVR_CLAIM_FUTILE);
    ck_assert(isinf(l.claim[1].n_needed));
    kvr_ledger_free(&l);
    l = judged(text, 100000);
    ck_assert_int_eq(l.claim[0].verdict, KVR_CLAIM_OPEN);
    ck_assert_double_eq(l.claim[0].n_needed, needed);
    ck_assert_int_eq(l.claim[1].verdict, KVR_CLAIM_FUTILE);
    kvr_ledger_free(&l);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("chaos");
    TCase *tc = tcase_create("chaos");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_sweep, drop_sweep);
    tcase_add_test(tc, chaos_alone_is_not_reported);
    tcase_add_test(tc, without_reruns);
    tcase_add_test(tc, fronts_use_the_margin);
    tcase_add_test(tc, unstable_prompts_are_named);
    tcase_add_test(tc, huge_values_fit_into_the_note);
    tcase_add_test(tc, windows);
    tcase_add_test(tc, errors_grow);
    tcase_add_test(tc, figures_shade_the_floor);
    tcase_add_test(tc, distribution);
    tcase_add_test(tc, sensitivity);
    suite_add_tcase(s, tc);
    tc = tcase_create("claims");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_sweep, drop_sweep);
    tcase_add_test(tc, ledger_of_claims);
    tcase_add_test(tc, claims_choose_prompts);
    tcase_add_test(tc, claims_may_be_futile);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
