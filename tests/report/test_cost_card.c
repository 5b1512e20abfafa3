/* test_cost_card.c - figures measured on a GPU: input that the reader refuses, the cost table, and
 * the text of its figure. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/cost.h"
#include "harness/report/plot/cost_plot.h"
#include "harness/report/table/values.h"
#include "harness/report/table/measured.h"
#include "harness/report/table/published.h"
#include "tests/suite.h"

static char dir[64], text[1 << 16];

static void put(const char *name, const char *content)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(content, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static const char *read(const char *name)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static const char sessions[] = "session,date,commit,changes,card,patched\n"
                               "old,2026-01-01T10,aaaaaaa,false,\"A card, of course\",nothing\n"
                               "new,2026-01-02T10,bbbbbbb,false,\"A card, of course\",\n"
                               "hand,2026-01-03T10,ccccccc,false,A card,\"a kernel, by hand\"\n"
                               "dirty,2026-01-04T10,ddddddd,true,A card,\n";
static const char rows[] = "session,name,unit,value,n,note\n"
                           "old,rollout.BF16.staged.42x21,s,6,1,NOISY DRIFT\n"
                           "old,rollout.BF16.staged.42x21:peak,GiB,15,1,\n"
                           "old,rollout.RTN_INT4.staged.42x21,s,9,1,\n"
                           "old,rollout.BF16.fused.42x21,s,8,1,\n"
                           "old,rollout.RTN_INT4.fused.42x21,s,10,1,\"NOISY DRIFT\"\n"
                           "old,rollout.RTN_INT4.fused.42x21:peak,GiB,6,1,\n"
                           "new,rollout.BF16.staged.42x21,s,5,1,\n"
                           "new,rollout.BF16.staged.42x21:peak,GiB,14,1,\n"
                           "new,rollout.RTN_INT4.staged.42x21,s,5.5,1,NOISY UNATTRIBUTED\n"
                           "new,rollout.RTN_INT4@study.staged.42x21,s,10,1,\n"
                           "new,rollout.RTN_INT4@study.staged.42x21:peak,GiB,8,1,\n"
                           "new,rollout.RTN_INT4 group=32.staged.42x21,s,7,1,\n"
                           "new,rollout.nonsense,s,7,1,\n"
                           "new,attention.dense.BF16.4680x4680,GFLOP/s,5,9,\n"
                           "hand,rollout.RTN_INT4.staged.42x21,s,1,1,\n"
                           "dirty,rollout.RTN_INT4.staged.42x21,s,2,1,\n";

static double value(const struct kvr_table *t, int row, const char *column)
{
    ck_assert_msg(kvr_table_find(t, column) >= 0, "no column %s", column);
    return kvr_table_number(t, row, kvr_table_find(t, column));
}

static const char *word(const struct kvr_table *t, int row, const char *column)
{
    ck_assert_msg(kvr_table_find(t, column) >= 0, "no column %s", column);
    return kvr_table_text(t, row, kvr_table_find(t, column));
}

static int row_of(const struct kvr_table *t, const char *method, const char *path)
{
    for (int r = 0; r < t->n_rows; r++)
        if (strcmp(word(t, r, "method"), method) == 0 && strcmp(word(t, r, "path"), path) == 0)
            return r;
    ck_abort_msg("no row %s %s", method, path);
}

static struct kvr_table *table(void)
{
    struct kvr_table *t;

    ck_assert_msg(kvr_report_cost_card(&t, dir) == KVR_OK, "%s", kvr_error());
    return t;
}

START_TEST(newest_of_each_name)
{
    struct kvr_table *t = table();
    int r;

    ck_assert_int_eq(t->n_rows, 6);
    ck_assert_str_eq(word(t, 0, "method"), "BF16");
    ck_assert_str_eq(word(t, 0, "path"), "staged");
    ck_assert_double_eq(value(t, 0, "runtime_s"), 5);
    ck_assert_double_eq(value(t, 0, "peak_bytes"), 14.0 * 1024 * 1024 * 1024);
    ck_assert_double_eq_tol(value(t, 0, "published_peak_gib"), 19.2801, 1e-9);
    ck_assert_str_eq(word(t, 0, "mark"), "");
    ck_assert_str_eq(word(t, 0, "card"), "A card, of course");
    /* RTN_INT4's time is NOISY, so runtime_s is empty; seen_ratio is relative to BF16 of the same
     * session */
    r = row_of(t, "RTN_INT4", "staged");
    ck_assert_double_nan(value(t, r, "runtime_s"));
    ck_assert_double_eq(value(t, r, "runtime_seen_s"), 5.5);
    ck_assert_str_eq(word(t, r, "time_codes"), "UNATTRIBUTED");
    ck_assert_double_eq_tol(value(t, r, "seen_ratio"), 1.1, 1e-12);
    ck_assert_double_nan(value(t, r, "peak_bytes"));
    ck_assert_double_eq_tol(value(t, r, "published_runtime_ratio"), 86.3 / 58.6, 1e-12);
    r = row_of(t, "RTN_INT4", "fused");
    ck_assert_double_eq_tol(value(t, r, "seen_ratio"), 1.25, 1e-12);
    ck_assert_str_eq(word(t, r, "mark"), "b");
    r = row_of(t, "RTN_INT4@study", "staged");
    ck_assert_double_eq_tol(value(t, r, "published_runtime_s"), 86.3, 1e-12);
    r = row_of(t, "RTN_INT4 group=32", "staged"); /* the study has no such method */
    ck_assert_double_nan(value(t, r, "published_runtime_s"));
    kvr_table_close(&t);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *sessions, *rows, *says;
        enum kvr_status st;
    } bad[] = {
        { sessions, "session,name,unit\nold,a,s\n",
          "rows.csv:1: the first line has no column 'value'", KVR_EFORMAT },
        { sessions, "session,name,unit,value\nwho,a,s,1\n", "rows.csv:2: session 'who'",
          KVR_EFORMAT },
        { sessions, "session,name,unit,value\nold,a,s,\nold,a,s,fast\n",
          "rows.csv:3: column value: 'fast' is not a number", KVR_EFORMAT },
        { sessions, "session,name,unit,value\nold,a,seconds of a rollout,1\n",
          "rows.csv:2: column unit: the value 'seconds of a ro...' is longer than 15 bytes",
          KVR_EFORMAT },
        { "", rows, "sessions.csv: empty", KVR_EFORMAT },
    };
    struct kvr_measured m;

    put("sessions.csv", bad[_i].sessions);
    put("rows.csv", bad[_i].rows);
    ck_assert_int_eq(kvr_measured_read(&m, dir), bad[_i].st);
    ck_assert_msg(strstr(kvr_error(), bad[_i].says) != NULL, "%s", kvr_error());
}
END_TEST

START_TEST(picture)
{
    struct kvr_table *t = table();
    struct kvr_plot_result r;

    ck_assert_msg(kvr_cost_plot(t, dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r) == KVR_OK,
                  "%s", kvr_error());
    /* three rows without a peak memory are left out */
    ck_assert(r.n_rows == 6 && r.n_figures == 1 && r.n_left_out == 3);
    read("cost.tsv");
    ck_assert_ptr_nonnull(strstr(text, "1\tBF16\tstaged\t5\t14\t7\t"));
    ck_assert_ptr_nonnull(strstr(text, "1\tRTN_INT4 (b)\tfused\t10\t6\t6\t"));
    ck_assert_ptr_nonnull(strstr(text, "2\tRTN_INT4\tpublished\t86.3\t19.98"));
    /* published values appear once */
    ck_assert_ptr_null(strstr(strstr(text, "2\tRTN_INT4\t") + 1, "2\tRTN_INT4\t"));
    read("cost.gp");
    ck_assert_ptr_nonnull(
        strstr(text, "Cost of a KV cache on one A card, of course, 2026-01-02, commit bbbbbbb"));
    ck_assert_ptr_nonnull(strstr(text, "(b) commit aaaaaaa, 2026-01-01"));
    ck_assert_ptr_nonnull(strstr(text, "1 of 3 times are NOISY"));
    ck_assert_ptr_nonnull(strstr(text, "RTN_INT4 (b) (fused)"));
    ck_assert_ptr_nonnull(strstr(text, "peak memory (GiB)"));
    kvr_table_close(&t);
}
END_TEST

/* Each group of settings has its own figure. The caption states the model's name and why times are
 * NOISY. */
START_TEST(figures_of_a_database)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },         { .name = "family" },     { .name = "path" },
        { .name = "model" },          { .name = "frames" },     { .name = "window" },
        { .name = "peak_bytes" },     { .name = "runtime_s" },  { .name = "mark" },
        { .name = "runtime_seen_s" }, { .name = "time_codes" }, { .name = "n" },
        { .name = "commit" },         { .name = "date" },       { .name = "card" },
        { .name = "settings" },
    };
    struct kvr_plot_result r;
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 16, columns), KVR_OK);
    for (int i = 0; i < 3; i++) {
        const bool seen = i == 2;
        const struct kvr_value v[] = {
            kvr_value_text(i == 1 ? "RTN_INT4@study" : "BF16"),
            kvr_value_text("RTN"),
            kvr_value_text(i == 1 ? "dense" : "staged"),
            kvr_value_text("wan-1.3b/compute=bf16"),
            kvr_value_count(seen ? 9 : 6),
            kvr_value_count(0),
            kvr_value_number(1024.0 * 1024 * 1024 * (i + 1)),
            seen ? kvr_value_none() : kvr_value_number(2 + i),
            kvr_value_none(),
            seen ? kvr_value_number(7) : kvr_value_none(),
            kvr_value_text(seen ? "LOAD DRIFT" : ""),
            kvr_value_count(1),
            kvr_value_text("abcdef"),
            kvr_value_text("2026-01-03"),
            kvr_value_text("Some CPU"),
            kvr_value_text(seen ? "frames 9" : "frames 6"),
        };

        ck_assert_int_eq(kvr_table_add(t, v), KVR_OK);
    }
    ck_assert_msg(kvr_cost_figure(t, dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r) ==
                      KVR_OK,
                  "%s", kvr_error());
    ck_assert(r.n_rows == 3 && r.n_figures == 2 && r.n_left_out == 0);
    read("cost.tsv");
    ck_assert_ptr_nonnull(strstr(text, "1\tBF16\tstaged\t2\t1\t7\t"));
    ck_assert_ptr_nonnull(strstr(text, "1\tRTN_INT4@study\tdense\t3\t2\t8\t"));
    ck_assert_ptr_nonnull(strstr(text, "2\tRTN_INT4\tpublished\t86.3\t19.98"));
    read("cost.gp");
    ck_assert_ptr_nonnull(
        strstr(text, "a rollout of wan-1.3b/compute=bf16, 6 latent frames, window 0"));
    ck_assert_ptr_null(strstr(text, "NOISY"));
    read("cost-2.tsv");
    ck_assert_ptr_nonnull(strstr(text, "1\tBF16\tstaged\t7\t3\t7\t"));
    ck_assert_ptr_null(strstr(text, "RTN_INT4"));
    read("cost-2.gp");
    ck_assert_ptr_nonnull(strstr(text, "data = 'cost-2.tsv'"));
    ck_assert_ptr_nonnull(strstr(text, "1 of 1 times are NOISY (LOAD DRIFT)"));
    kvr_table_close(&t);
}
END_TEST

/* The study's costs of Wan 1.3B stand beside whole models of its sizes, whatever their compute type
 * and weights. */
START_TEST(published_costs_need_wan_1_3b)
{
    static const struct {
        const char *model;
        bool fits;
    } cases[] = { { "wan-1.3b", true },
                  { "wan-1.3b-random", true },
                  { "wan-1.3b-random/compute=bf16", true },
                  { "wan-1.3b-random/layers=2,steps=1,compute=bf16", false },
                  { "wan-1.3b-random/layers=2", false },
                  { "wan-1.3b-random/steps=1", false },
                  { "wan-1.3b/trace", false },
                  { "wan-1.3b-1080p-random", false },
                  { "wan-14b-random", false },
                  { "nano", false },
                  { "nano/compute=bf16", false },
                  { "removed-model", false },
                  { "", false } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool fits = !cases[i].fits;

        ck_assert_int_eq(kvr_published_fits(&fits, cases[i].model), KVR_OK);
        ck_assert_msg(fits == cases[i].fits, "%s", cases[i].model);
    }
}
END_TEST

START_TEST(nothing_to_draw)
{
    struct kvr_plot_result r;
    struct kvr_table *t;

    put("rows.csv", "session,name,unit,value,n,note\nnew,rollout.BF16.staged.42x21,s,5,1,\n");
    t = table();
    ck_assert_int_eq(kvr_cost_plot(t, dir, KVR_PLOT_SVG, &(struct kvr_plot_style){ 0 }, &r),
                     KVR_EINVAL);
    ck_assert_ptr_nonnull(
        strstr(kvr_error(), "none of 1 measured or published methods has both a time and a peak"));
    kvr_table_close(&t);
}
END_TEST

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvreel-test-card-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    put("sessions.csv", sessions);
    put("rows.csv", rows);
}

static void drop_dir(void)
{
    char cmd[96];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

int main(void)
{
    Suite *s = suite_create("cost_card");
    TCase *tc = tcase_create("cost_card");

    tcase_add_checked_fixture(tc, make_dir, drop_dir);
    tcase_add_test(tc, newest_of_each_name);
    tcase_add_loop_test(tc, refusals, 0, 5);
    tcase_add_test(tc, picture);
    tcase_add_test(tc, figures_of_a_database);
    tcase_add_test(tc, published_costs_need_wan_1_3b);
    tcase_add_test(tc, nothing_to_draw);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
