/* test_prefill.c - the table of partial-prefill runs: which runs the table compares, the intervals
 * of differences, and the verdicts on published claims. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "harness/report/plot/plot.h"
#include "harness/report/prefill.h"
#include "harness/report/report.h"
#include "harness/report/reproduce/reproduce.h"
#include "harness/store/setting.h"
#include "tests/report/values.h"
#include "tests/rows.h"
#include "tests/suite.h"

enum { TEXTS = 8, BINS = 2 };

/* nll and mass: a method's NLL and attention mass minus BF16's. NLL differs more between texts than
 * between methods, so only differences within each text are significant. */
static const struct {
    const char *label, *correction;
    double nll, mass;
    int64_t nominal;
} methods[] = {
    { "BF16", "none", 0, 0, 1600 },          { "A", "none", 1.0, 0.10, 300 },
    { "A+flat", "flat", 0.9, -0.20, 310 },   { "A+taylor", "taylor", 0.25, -0.05, 300 },
    { "A+energy", "energy", 1.0, 0.0, 320 },
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static char db[64];

/* NLL of text t with method m after prefix b. For method 4 (energy) the sign of the difference
 * alternates between texts, so it is not significant. */
static double nll_of(int m, int t, int b)
{
    const double turns = m == 4 ? (t % 2 ? 0.3 : -0.3) : 0.01 * (t % 3);

    return 2 + 0.5 * t + b + methods[m].nll * (b + 1) + (m ? turns : 0);
}

static void put_text(struct kvr_store *s, const char *session, int m, int t)
{
    const double tokens[BINS] = { 100, 300 };
    double nll[BINS], mass[BINS], kl[BINS], top1[BINS], all[4] = { 0 };
    struct kvr_row_metric metric[] = {
        { .name = "nll", .unit = "nat", .series = nll },
        { .name = "mass", .unit = "1", .series = mass },
        { .name = "kl", .unit = "nat", .series = kl },
        { .name = "top1", .unit = "1", .series = top1 },
        { .name = "tokens_scored", .unit = "1", .value = 400, .series = tokens },
    };
    struct kvr_settings set;
    json_t *spec = json_pack("{s:{s:s}}", "parts", "correction", methods[m].correction);
    char key[32], baseline[32], id[16], *text;

    for (int b = 0; b < BINS; b++) {
        nll[b] = nll_of(m, t, b);
        mass[b] = 0.5 + methods[m].mass * (b + 1) + 0.001 * t;
        kl[b] = methods[m].nll;
        top1[b] = m ? 0.5 : 1;
        for (int i = 0; i < 4; i++)
            all[i] += metric[i].series[b] * tokens[b] / 400;
    }
    for (int i = 0; i < 5; i++) {
        metric[i].value = i < 4 ? all[i] : 400;
        metric[i].n = 400;
        metric[i].extra = NAN;
        metric[i].n_series = BINS;
    }
    kvr_settings_defaults(&set);
    set.frames = 1024;
    set.forcing = "teacher";
    set.chunk = 128;
    ck_assert_int_eq(kvr_settings_write_json(&set, false, spec), KVR_OK);
    ck_assert_int_eq(kvr_settings_write_json(&set, true, spec), KVR_OK);
    text = json_dumps(spec, JSON_SORT_KEYS | JSON_COMPACT);
    snprintf(key, sizeof key, "%d-%d", m, t);
    snprintf(baseline, sizeof baseline, "0-%d", t);
    snprintf(id, sizeof id, "t%d", t);
    {
        struct kvr_row r = example_row(key, session, KVR_OUT_OK);

        r.baseline = baseline;
        r.is_baseline = m == 0;
        r.spec = text;
        r.method = methods[m].label;
        r.name = "A";
        r.model = "tiny";
        r.prompt_id = id;
        r.bf16_bytes = 1600;
        r.nominal_bytes = r.resident_bytes = methods[m].nominal;
        r.n_metrics = 5;
        r.metric = metric;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    }
    free(text);
    json_decref(spec);
}

static void fill(void)
{
    static char arg0[] = "kvreel";
    char *argv[] = { arg0, NULL };
    struct kvr_session x;
    struct kvr_store *s;
    int fd;

    strcpy(db, "/tmp/kvreel-test-prefill-XXXXXX");
    fd = mkstemp(db);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(db);
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_session_gather(&x, 1, argv, "a.yaml", "methods: []\n", 1), KVR_OK);
    ck_assert_int_eq(kvr_store_session(s, &x), KVR_OK);
    for (int m = 0; m < METHODS; m++)
        for (int t = 0; t < TEXTS; t++)
            put_text(s, x.id, m, t);
    kvr_session_free(&x);
    kvr_store_close(&s);
}

static void drop(void)
{
    remove_store(db);
}

static const struct kvr_prefill_run *run_of(const struct kvr_prefill *p, const char *method,
                                            int prefix)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->run[i].method, method) == 0 && p->run[i].prefix == prefix)
            return &p->run[i];
    ck_abort_msg("no run of %s behind %d", method, prefix);
    return NULL;
}

START_TEST(runs_are_prefixes_and_methods)
{
    struct kvr_prefill p;
    const struct kvr_prefill_run *r;

    ck_assert_msg(kvr_prefill_read(&p, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(p.n, (BINS + 1) * METHODS);
    ck_assert(p.run[0].baseline && p.run[0].prefix == 256 && p.run[METHODS].prefix == 512 &&
              p.run[2 * METHODS].prefix == 0);
    ck_assert_str_eq(p.run[1].method, "A"); /* a method comes before its corrections */
    r = run_of(&p, "A+taylor", 512);
    ck_assert(r->n_texts == TEXTS && r->chunk == 128 && r->bits == 3.0);
    ck_assert_str_eq(r->carrier, "A");
    ck_assert_ptr_eq(kvr_prefill_carrier(&p, r), run_of(&p, "A", 512));
    ck_assert_ptr_eq(kvr_prefill_baseline(&p, r), run_of(&p, "BF16", 512));
    ck_assert_ptr_null(kvr_prefill_carrier(&p, run_of(&p, "A", 512)));
    kvr_prefill_free(&p);
}
END_TEST

/* The mean is over tokens, not over bins: 100 tokens follow the first prefix, 300 the second. */
START_TEST(means_are_over_tokens)
{
    struct kvr_prefill p;
    double want = 0;

    ck_assert_int_eq(kvr_prefill_read(&p, db), KVR_OK);
    for (int t = 0; t < TEXTS; t++)
        want += (0.25 * nll_of(1, t, 0) + 0.75 * nll_of(1, t, 1)) / TEXTS;
    ck_assert_double_eq_tol(kvr_prefill_mean(&p, run_of(&p, "A", 0), KVR_PREFILL_NLL), want, 1e-12);
    kvr_prefill_free(&p);
}
END_TEST

START_TEST(differences_are_paired_by_text)
{
    struct kvr_prefill p;
    struct kvr_comparison c;

    ck_assert_int_eq(kvr_prefill_read(&p, db), KVR_OK);
    ck_assert_int_eq(kvr_prefill_compare(&p, run_of(&p, "A+taylor", 256), run_of(&p, "A", 256),
                                         KVR_PREFILL_NLL, &c),
                     KVR_OK);
    ck_assert_int_eq(c.n, TEXTS);
    ck_assert_double_eq_tol(c.mean, -0.75, 1e-12);
    /* the difference is the same for every text, so the interval has no width */
    ck_assert_double_eq_tol(c.ci.hi - c.ci.lo, 0, 1e-9);
    ck_assert_int_eq(
        kvr_prefill_compare(&p, run_of(&p, "A", 512), NULL, KVR_PREFILL_MASS_SHIFT, &c), KVR_OK);
    ck_assert_double_eq_tol(c.mean, 0.2, 1e-12);
    kvr_prefill_free(&p);
}
END_TEST

static const char *text_at(const struct kvr_table *t, int row, const char *column)
{
    return kvr_table_text(t, row, kvr_table_find(t, column));
}

static double number_at(const struct kvr_table *t, int row, const char *column)
{
    return kvr_table_number(t, row, kvr_table_find(t, column));
}

START_TEST(the_table_tells_corrections_apart)
{
    struct kvr_table *t;

    ck_assert_msg(kvr_report_table(&t, db, "prefill") == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(t->n_rows, (BINS + 1) * METHODS);
    for (int r = 0; r < t->n_rows; r++) {
        const char *method = text_at(t, r, "method");
        const char *verdict = strcmp(method, "A+taylor") == 0 || strcmp(method, "A+flat") == 0
                                  ? "better"
                              : strcmp(method, "A+energy") == 0 ? "not separable"
                                                                : "";

        ck_assert_msg(strcmp(text_at(t, r, "verdict"), verdict) == 0, "%s: %s", method,
                      text_at(t, r, "verdict"));
        if (strcmp(method, "BF16") != 0)
            ck_assert_msg(number_at(t, r, "d_nll_lo") <= number_at(t, r, "d_nll") &&
                              number_at(t, r, "d_nll") <= number_at(t, r, "d_nll_hi"),
                          "%s", method);
    }
    kvr_table_close(&t);
}
END_TEST

static const char *verdict_of(const struct kvr_reproduction *r, const char *method,
                              const char *quantity)
{
    for (int i = 0; i < r->table->n_rows; i++)
        if (strcmp(text_at(r->table, i, "method"), method) == 0 &&
            strcmp(text_at(r->table, i, "quantity"), quantity) == 0)
            return text_at(r->table, i, "verdict");
    ck_abort_msg("no %s of %s", quantity, method);
    return NULL;
}

/* The stored values are constructed so that A has a higher NLL than BF16, and A+taylor a lower one
 * than A but not lower than BF16. A adds 0.10 to BF16's attention mass on the prefix; A+taylor is
 * 0.05 below BF16's. */
START_TEST(claims_have_a_verdict)
{
    struct kvr_reproduction r;

    ck_assert_msg(kvr_reproduce(&r, "jensen-llm", db, NULL, false) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(r.table->n_rows, 7);
    ck_assert_str_eq(verdict_of(&r, "A", "d_nll"), "holds");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "gain"), "holds");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "below_bf16"), "does not hold");
    ck_assert_str_eq(verdict_of(&r, "A", "mass_shift"), "holds");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "mass_shift_left"), "holds");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "best_correction"), "not published");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "best_method"), "not published");
    ck_assert_double_eq_tol(number_at(r.table, 1, "measured"), -0.75 * 1.75, 1e-9);
    ck_assert_double_eq_tol(number_at(r.table, 5, "measured"), 0.25 * 1.75 + 0.01 * 7 / 8, 1e-9);
    kvr_reproduction_free(&r);
    ck_assert_int_eq(kvr_reproduce(&r, "jensen-llm", NULL, NULL, false), KVR_OK);
    ck_assert_int_eq(r.n[KVR_VERDICT_NOT_MEASURED], 5);
    kvr_reproduction_free(&r);
}
END_TEST

/* Changes the stored values so that the claims fail: A+taylor gets a higher NLL than A, and a lower
 * NLL than BF16 after the first prefix. */
START_TEST(claims_can_fail)
{
    struct kvr_reproduction r;
    sqlite3 *raw;

    ck_assert_int_eq(sqlite3_open(db, &raw), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(raw,
                                  "UPDATE metric SET value = value + 2 WHERE name = 'nll' AND cell "
                                  "LIKE '3-%'; UPDATE series SET value = value - 1 WHERE name = "
                                  "'nll' AND cell LIKE '3-%' AND idx = 0",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(raw);
    ck_assert_msg(kvr_reproduce(&r, "jensen-llm", db, NULL, false) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "gain"), "does not hold");
    ck_assert_str_eq(verdict_of(&r, "A+taylor", "below_bf16"), "holds");
    ck_assert_str_eq(verdict_of(&r, "A+flat", "best_correction"), "not published");
    kvr_reproduction_free(&r);
}
END_TEST

START_TEST(figures_have_a_curve_per_method)
{
    static const char *const names[] = { "prefill", "prefill_mass" };
    struct kvr_plot_result r;
    char dir[] = "/tmp/kvreel-test-prefill-XXXXXX", cmd[64];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(
            kvr_plot(db, names[i], dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r) == KVR_OK,
            "%s", kvr_error());
        ck_assert_int_eq(r.n_rows, (METHODS - 1) * BINS);
        ck_assert_int_eq(r.n_figures, 1);
    }
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("prefill");
    Suite *s = suite_create("prefill");

    tcase_add_unchecked_fixture(tc, fill, drop);
    tcase_add_test(tc, runs_are_prefixes_and_methods);
    tcase_add_test(tc, means_are_over_tokens);
    tcase_add_test(tc, differences_are_paired_by_text);
    tcase_add_test(tc, the_table_tells_corrections_apart);
    tcase_add_test(tc, claims_have_a_verdict);
    tcase_add_test(tc, figures_have_a_curve_per_method);
    tcase_add_test(tc, claims_can_fail); /* last, because it changes the database */
    suite_add_tcase(s, tc);
    return run_suite(s);
}
