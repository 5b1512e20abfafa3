/* test_plot.c - compares a figure's script and data with golden files. Also tests names that
 * gnuplot could execute, the Pareto front, the placement of labels, and plotting without gnuplot.
 * KVREEL_GOLDEN=write rewrites the golden files; look at the difference before keeping it. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/report/plot/labels.h"
#include "harness/report/plot/plot.h"
#include "tests/report/values.h"
#include "tests/suite.h"

static const struct kvr_plot_style plain;
static char dir[] = "/tmp/kvreel-test-plot-XXXXXX";
static const char *const outputs[] = { "pareto.tsv",      "pareto.gp",       "pareto.svg",
                                       "pareto.png",      "pareto-2.tsv",    "pareto-2.gp",
                                       "pareto-2.svg",    "pareto-2.png",    "drift.tsv",
                                       "drift.gp",        "drift.svg",       "memory_trace.tsv",
                                       "memory_trace.gp", "memory_trace.svg" };

static void make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static const char *in_dir(const char *name)
{
    static char buf[256];

    snprintf(buf, sizeof buf, "%s/%s", dir, name);
    return buf;
}

static void remove_dir(void)
{
    remove_store(in_dir("x.db"));
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        unlink(in_dir(outputs[i]));
    ck_assert_msg(rmdir(dir) == 0, "something is left in %s", dir);
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
}

/* The file's text, malloc'ed; NULL if there is no such file. */
static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    size_t n = 0;

    if (!f)
        return NULL;
    if (getdelim(&s, &n, '\0', f) < 0 && s)
        s[0] = '\0';
    fclose(f);
    return s;
}

static const struct kvr_plot_spec *pareto(void)
{
    const struct kvr_plot_spec *s = kvr_plots;

    while (strcmp(s->name, "pareto") != 0)
        s++;
    return s;
}

struct row {
    const char *method, *family;
    double compression, ssim; /* NaN: NULL */
    int n_ok, window;
};

static struct kvr_table *make_rows(const struct row *rows, int n)
{
    static const struct kvr_column columns[] = {
        { .name = "method" }, { .name = "family" },      { .name = "is_baseline" },
        { .name = "bits" },   { .name = "compression" }, { .name = "ssim" },
        { .name = "n_ok" },   { .name = "n_attempted" }, { .name = "model" },
        { .name = "window" },
    };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 10, columns), KVR_OK);
    for (int i = 0; i < n; i++) {
        bool none = isnan(rows[i].compression);
        const struct kvr_value v[] = { text(rows[i].method),
                                       text(rows[i].family),
                                       integer(strcmp(rows[i].method, "BF16") == 0),
                                       none ? null() : real(16.0 / rows[i].compression),
                                       none ? null() : real(rows[i].compression),
                                       isnan(rows[i].ssim) ? null() : real(rows[i].ssim),
                                       integer(rows[i].n_ok),
                                       integer(4),
                                       text("nano"),
                                       integer(rows[i].window) };

        ck_assert_int_eq(kvr_table_add(t, v), KVR_OK);
    }
    return t;
}

/* Names with a quote, a tab, a backquoted command, a macro and a comment sign, which a gnuplot
 * script could execute. */
static const struct row golden_rows[] = {
    { "BF16", "BF16", 1.0, 1.0, 4, 21 },
    { "RTN_INT4", "RTN", 3.2, 0.71, 4, 21 },
    { "RTN_INT2", "RTN", 5.333, 0.4, 3, 21 },
    { "RTN_K2_V4", "RTN", 4.0, 0.3, 4, 21 },
    { "''; system('x''')\t`y`\n\"@z\\", "#it's", 3.2, 0.55, 4, 21 },
    { "FAILED", "RTN", NAN, NAN, 0, 21 },
};
enum { N_GOLDEN = sizeof golden_rows / sizeof golden_rows[0] };

static void compare_golden(const char *name)
{
    char golden[128];
    char *got = slurp(in_dir(name)), *want;

    snprintf(golden, sizeof golden, "tests/report/golden/%s", name);
    ck_assert_msg(got != NULL, "%s was not written", name);
    if (getenv("KVREEL_GOLDEN")) {
        FILE *f = fopen(golden, "wb");

        ck_assert_ptr_nonnull(f);
        fputs(got, f);
        fclose(f);
    }
    want = slurp(golden);
    ck_assert_msg(want != NULL, "%s is not there (tests run in the repository's root)", golden);
    ck_assert_str_eq(got, want);
    free(got);
    free(want);
}

/* If most values are above 0.9, the axis is logarithmic in 1 - v: 0.9, 0.99 and 0.999 are equally
 * spaced. No text in a figure of column width (3.35 inches) is below 7 points. */
START_TEST(near_one_is_stretched)
{
    static const struct row rows[] = { { "BF16", "BF16", 1.0, 1.0, 4, 21 },
                                       { "RTN_INT8", "RTN", 1.8, 0.999, 4, 21 },
                                       { "RTN_INT4", "RTN", 3.2, 0.99, 4, 21 },
                                       { "RTN_INT2", "RTN", 5.3, 0.91, 4, 21 } };
    struct kvr_table *t = make_rows(rows, 4);
    struct kvr_plot_result r;
    char *script;

    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG,
                                    &(struct kvr_plot_style){ .width_in = 3.35 }, &r),
                     KVR_OK);
    script = slurp(in_dir("pareto.gp"));
    ck_assert_ptr_nonnull(script);
    ck_assert_ptr_nonnull(strstr(script, "sy(v) = -log10(1 - v"));
    ck_assert_ptr_nonnull(strstr(script, "'0.99' 2"));
    for (const char *at = script; (at = strstr(at, "'sans-serif,")); at++)
        ck_assert_msg(atof(at + 12) >= 7.0, "%.30s", at);
    free(script);
    kvr_table_close(&t);
}
END_TEST

/* With many points only those on the Pareto front have an error bar; the data file has all
 * intervals. An axis that ends at 1 includes the value 1. */
START_TEST(many_points_stay_readable)
{
    enum { MANY = 40 };
    static struct row rows[MANY];
    static char names[MANY][16];
    struct kvr_table *t;
    struct kvr_plot_result r;
    char *data, *script;
    int n_bars = 0, n_lines = 0;
    double top = 0, cap = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], i ? "M%d" : "BF16", i);
        rows[i] = (struct row){ names[i],
                                "RTN",
                                i % 2 ? 1.0 + i / 10.0 : 1.0 + i / 20.0,
                                i % 2 ? 0.9999 - i / 5e4 : 0.998 - i / 5e4,
                                4,
                                21 };
    }
    rows[0].ssim = 1.0;
    t = make_rows(rows, MANY);
    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
    data = slurp(in_dir("pareto.tsv"));
    script = slurp(in_dir("pareto.gp"));
    ck_assert(data && script);
    for (char *line = strtok(data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
        int front, bar, at = 0;

        for (int tabs = 0; tabs < 6; at++)
            tabs += line[at] == '\t';
        if (sscanf(line + at, "%d\t%d", &front, &bar) == 2)
            n_bars += bar;
    }
    ck_assert_int_eq(n_lines, MANY + 1);
    ck_assert_int_eq(n_bars, 1 + MANY / 2); /* BF16 and the odd methods form the front */
    ck_assert_int_eq(sscanf(strstr(script, "set yrange ["),
                            "set yrange [%*[^:]:%lf]\nsy(v) = -log10(1 - v > %lf", &top, &cap),
                     2);
    ck_assert_double_gt(top, -log10(cap));
    free(data);
    free(script);
    kvr_table_close(&t);
}
END_TEST

/* True if gnuplot drew the figure; without gnuplot, reports a skip. */
static bool drawn(const struct kvr_plot_result *r)
{
    if (r->drawn)
        return true;
    ck_assert_msg(strstr(r->warning, "gnuplot cannot be run") != NULL, "%s", r->warning);
    printf("skip - figures of the plot (gnuplot is not installed)\n");
    fflush(stdout);
    return false;
}

START_TEST(script_and_data_are_golden)
{
    struct kvr_table *t = make_rows(golden_rows, N_GOLDEN);
    struct kvr_plot_result r;

    ck_assert_msg(kvr_plot_table(pareto(), t, "a host", dir, KVR_PLOT_SVG | KVR_PLOT_PNG, &plain,
                                 &r) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(r.n_figures, 1);
    ck_assert_int_eq(r.n_rows, N_GOLDEN);
    ck_assert_int_eq(r.n_left_out, 1);
    compare_golden("pareto.tsv");
    compare_golden("pareto.gp");
    if (drawn(&r)) {
        ck_assert_int_eq(access(in_dir("pareto.svg"), R_OK), 0);
        ck_assert_int_eq(access(in_dir("pareto.png"), R_OK), 0);
    }
    kvr_table_close(&t);
}
END_TEST

/* Two runs give the same picture, and names that gnuplot could execute appear as text. */
START_TEST(pictures_are_deterministic)
{
    struct kvr_table *t = make_rows(golden_rows, N_GOLDEN);
    struct kvr_plot_result r;
    char *svg[2];

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kvr_plot_table(pareto(), t, "a host", dir, KVR_PLOT_SVG, &plain, &r),
                         KVR_OK);
        svg[i] = slurp(in_dir("pareto.svg"));
    }
    if (drawn(&r)) {
        ck_assert(svg[0] && svg[1]);
        ck_assert_str_eq(svg[0], svg[1]);
        ck_assert_msg(strstr(svg[0], "system(") != NULL, "the hostile name is not shown");
        ck_assert_msg(strstr(svg[0], "`y`") != NULL, "a command was run");
    }
    free(svg[0]);
    free(svg[1]);
    kvr_table_close(&t);
}
END_TEST

START_TEST(settings_are_not_mixed)
{
    struct row rows[] = { { "BF16", "BF16", 1.0, 1.0, 4, 21 },
                          { "RTN_INT4", "RTN", 3.2, 0.7, 4, 21 },
                          { "BF16", "BF16", 1.0, 1.0, 4, 0 },
                          { "RTN_INT4", "RTN", 3.2, 0.6, 4, 0 } };
    struct kvr_table *t = make_rows(rows, 4);
    struct kvr_plot_result r;
    char *first, *second;

    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
    ck_assert_int_eq(r.n_figures, 2);
    first = slurp(in_dir("pareto.gp"));
    second = slurp(in_dir("pareto-2.gp"));
    ck_assert(first && second);
    ck_assert_ptr_nonnull(strstr(first, "n = 4 per method; model nano, window 21"));
    ck_assert_ptr_nonnull(strstr(second, "n = 4 per method; model nano, window 0"));
    free(first);
    free(second);
    kvr_table_close(&t);
}
END_TEST

/* A stretched axis along the narrow side of a page has at most six numbers of six characters, so
 * that they do not overlap. Two axes of the same metric have the same numbers. */
START_TEST(axis_numbers_do_not_overlap)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },  { .name = "family" },      { .name = "is_baseline" },
        { .name = "bits" },    { .name = "ssim_a" },      { .name = "ssim_b" },
        { .name = "n_ok" },    { .name = "n_attempted" }, { .name = "x_suite" },
        { .name = "y_suite" },
    };
    static const double ssim[] = { 0.75, 0.91, 0.99, 0.999, 0.9999 };
    const struct kvr_plot_style single = { .width_in = 3.35 };
    const struct kvr_plot_spec *suites = kvr_plots;
    struct kvr_plot_spec spec;
    struct kvr_table *t;
    struct kvr_plot_result r;
    char *script, *x, *y;
    int n = 1;

    while (strcmp(suites->name, "suites") != 0)
        suites++;
    spec = *suites;
    spec.name = "pareto"; /* the fixture removes the files of a plot of this name */
    ck_assert_int_eq(kvr_table_open(&t, 10, columns), KVR_OK);
    for (int i = 0; i < 5; i++) {
        const struct kvr_value v[] = {
            text("A"),         text("RTN"), integer(0), real(4),    real(ssim[i]),
            real(ssim[4 - i]), integer(2),  integer(2), text("so"), text("so"),
        };

        ck_assert_int_eq(kvr_table_add(t, v), KVR_OK);
    }
    ck_assert_int_eq(kvr_plot_table(&spec, t, "h", dir, KVR_PLOT_SVG, &single, &r), KVR_OK);
    script = slurp(in_dir("pareto.gp"));
    ck_assert_ptr_nonnull(script);
    x = strstr(script, "set xtics (");
    y = strstr(script, "set ytics (");
    ck_assert(x && y);
    *strchr(x, '\n') = *strchr(y, '\n') = '\0';
    ck_assert_str_eq(x + 5, y + 5); /* compares the text after "set x" and "set y" */
    for (const char *c = x; (c = strchr(c, ',')); c++)
        n++;
    ck_assert_msg(n >= 3 && n <= 6, "%d numbers: %s", n, x);
    free(script);
    kvr_table_close(&t);
}
END_TEST

/* Results of two machines give two figures, each with the machine's name. A bar beyond the axis is
 * cut, and the caption says so. Captions use the setting names of sweep files. */
START_TEST(machines_are_not_mixed)
{
    static const struct kvr_column columns[] = {
        { .name = "method" },      { .name = "family" },      { .name = "is_baseline" },
        { .name = "bits" },        { .name = "compression" }, { .name = "ssim" },
        { .name = "ssim_lo" },     { .name = "ssim_hi" },     { .name = "n_ok" },
        { .name = "n_attempted" }, { .name = "backend" },     { .name = "machine" },
    };
    static const char *const machine[] = { "a laptop", "a server" };
    const double lo[] = { 0.53, 0.05 };
    struct kvr_table *t;
    struct kvr_plot_result r;
    char *script[2];

    ck_assert_int_eq(kvr_table_open(&t, 12, columns), KVR_OK);
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 2; i++) {
            const struct kvr_value v[] = { text(i ? "RTN_INT4" : "RTN_INT8"),
                                           text("RTN"),
                                           integer(0),
                                           real(i ? 5 : 9),
                                           real(i ? 3.2 : 1.8),
                                           real(0.6 - 0.05 * i),
                                           real(i ? lo[m] : 0.59),
                                           real(0.61),
                                           integer(2),
                                           integer(2),
                                           text("cpu"),
                                           text(machine[m]) };

            ck_assert_int_eq(kvr_table_add(t, v), KVR_OK);
        }
    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
    ck_assert_int_eq(r.n_figures, 2);
    script[0] = slurp(in_dir("pareto.gp"));
    script[1] = slurp(in_dir("pareto-2.gp"));
    ck_assert(script[0] && script[1]);
    ck_assert_msg(strstr(script[0], "on a laptop") && !strstr(script[0], "server"), "%s",
                  script[0]);
    ck_assert_msg(strstr(script[1], "on a server") && !strstr(script[1], "laptop"), "%s",
                  script[1]);
    ck_assert_ptr_nonnull(strstr(script[0], "device cpu"));
    ck_assert_ptr_null(strstr(script[0], "some clipped at the edge of the plot"));
    ck_assert_ptr_nonnull(strstr(script[1], "some clipped at the edge of the plot"));
    for (int i = 0; i < 2; i++)
        free(script[i]);
    kvr_table_close(&t);
}
END_TEST

START_TEST(nothing_to_draw_is_an_error)
{
    struct row rows[] = { { "FAILED", "RTN", NAN, NAN, 0, 21 } };
    struct kvr_table *t = make_rows(rows, 1), *none = make_rows(rows, 0);
    struct kvr_plot_result r;

    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "nothing to draw") != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_plot_table(pareto(), none, "h", dir, KVR_PLOT_SVG, &plain, &r),
                     KVR_EINVAL);
    kvr_table_close(&t);
    kvr_table_close(&none);
}
END_TEST

START_TEST(one_point_has_axes)
{
    struct row rows[] = { { "BF16", "BF16", 1.0, 1.0, 4, 21 } };
    struct kvr_table *t = make_rows(rows, 1);
    struct kvr_plot_result r;
    char *s;

    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
    ck_assert_msg(!r.drawn || !r.warning[0], "%s", r.warning);
    s = slurp(in_dir("pareto.gp"));
    ck_assert_ptr_nonnull(s);
    ck_assert_ptr_null(strstr(s, "inf"));
    for (const char *p = s; (p = strstr(p, "nan")) != NULL; p += 4)
        ck_assert_msg(p[3] == 'o', "%s", p); /* the model's name */
    free(s);
    kvr_table_close(&t);
}
END_TEST

START_TEST(without_gnuplot_the_files_stay)
{
    struct kvr_table *t = make_rows(golden_rows, N_GOLDEN);
    struct kvr_plot_result r;
    char *path = strdup(getenv("PATH"));

    setenv("PATH", "/nonexistent", 1);
    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
    setenv("PATH", path, 1);
    free(path);
    ck_assert(!r.drawn);
    ck_assert_msg(strstr(r.warning, "gnuplot cannot be run") && strstr(r.warning, "pareto.gp"),
                  "%s", r.warning);
    ck_assert_int_eq(access(in_dir("pareto.tsv"), R_OK), 0);
    ck_assert_int_eq(access(in_dir("pareto.gp"), R_OK), 0);
    kvr_table_close(&t);
}
END_TEST

START_TEST(folder_that_cannot_be_made_is_named)
{
    struct kvr_table *t = make_rows(golden_rows, N_GOLDEN);
    struct kvr_plot_result r;

    ck_assert_int_ne(kvr_plot_table(pareto(), t, "h", "/dev/null/x", KVR_PLOT_SVG, &plain, &r),
                     KVR_OK);
    ck_assert_msg(strstr(kvr_error(), "/dev/null") != NULL, "%s", kvr_error());
    kvr_table_close(&t);
}
END_TEST

START_TEST(every_plot_reads_the_store)
{
    char *db = strdup(in_dir("x.db"));

    fill_store(db);
    for (int i = 0; kvr_plots[i].name; i++) {
        struct kvr_plot_result r;
        char name[128];

        if (strcmp(kvr_plots[i].name, "suites") == 0) { /* refused: the store has one suite */
            ck_assert_int_eq(kvr_plot(db, "suites", dir, KVR_PLOT_SVG, &plain, &r), KVR_EINVAL);
            continue;
        }
        ck_assert_msg(kvr_plot(db, kvr_plots[i].name, dir, KVR_PLOT_SVG, &plain, &r) == KVR_OK,
                      "%s: %s", kvr_plots[i].name, kvr_error());
        ck_assert_int_eq(r.n_figures, 1);
        ck_assert_int_eq(r.n_left_out, 1);
        ck_assert_msg(!r.warning[0] || !r.drawn, "%s", r.warning);
        for (const char *const *s = (const char *const[]){ "tsv", "gp", "svg", NULL }; *s; s++) {
            snprintf(name, sizeof name, "%s.%s", kvr_plots[i].name, *s);
            unlink(in_dir(name));
        }
    }
    free(db);
}
END_TEST

/* Stores BF16 and 15 methods, each with two prompts and two seeds. Every cell has SSIM per frame
 * and the memory use of two passes. */
static void fill_many(const char *path)
{
    enum { METHODS = 16, CELLS = METHODS * 4 };
    char *const argv[] = { (char[]){ "kvreel" }, NULL };
    struct kvr_session session;
    struct kvr_store *s;

    ck_assert_msg(kvr_store_open(&s, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_session_gather(&session, 1, argv, "x.yaml", "", 1), KVR_OK);
    ck_assert_msg(kvr_store_session(s, &session) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < CELLS; i++) {
        const int m = i / 4, prompt = i % 2, seed = i / 2 % 2;
        const double ssim = m ? 0.9 - m / 50.0 - prompt / 100.0 : 1.0;
        const double series[] = { 1.0, ssim, ssim };
        const struct kvr_row_metric metric = {
            .name = "ssim", .unit = "1", .value = ssim, .n = 3, .n_series = 3, .series = series
        };
        const struct kvr_row_pass pass[2] = { { .by_tag = { 10 } },
                                              { .pass = 1, .by_tag = { 20 } } };
        char key[16], method[16], baseline[16], id[8], spec[256];
        struct kvr_row row;

        snprintf(key, sizeof key, "k%d", i);
        snprintf(baseline, sizeof baseline, "k%d", i % 4);
        snprintf(method, sizeof method, m ? "RTN_M%d" : "BF16", m);
        snprintf(id, sizeof id, "p%d", prompt);
        snprintf(spec, sizeof spec,
                 "{\"backend\":\"cpu\",\"evict\":false,\"frames\":3,\"kind\":\"bench\","
                 "\"path\":\"staged\",\"seed\":%d,\"sink\":0,\"threads\":1,\"window\":21}",
                 seed);
        row = example_row(key, session.id, KVR_OUT_OK);
        row.baseline = baseline;
        row.is_baseline = m == 0;
        row.spec = spec;
        row.method = row.name = method;
        row.prompt_id = id;
        row.bf16_bytes = 1600;
        row.nominal_bytes = row.resident_bytes = 1600 / (m + 1);
        row.metric = &metric;
        row.n_metrics = 1;
        row.pass = pass;
        row.n_passes = 2;
        ck_assert_msg(kvr_store_put(s, &row) == KVR_OK, "%s: %s", key, kvr_error());
    }
    kvr_session_free(&session);
    kvr_store_close(&s);
}

/* The captions state the number of independent samples, the number of methods without a label
 * (drift), and the number of methods shown (memory_trace). */
START_TEST(captions_say_what_is_shown)
{
    static const struct {
        const char *plot, *says;
    } cases[] = { { "pareto", "n = 2 prompts (4 videos) per method" },
                  { "drift", "; n = 2; thin: the 5 other methods" },
                  { "memory_trace", "; 11 of 16 methods" } };
    char *db = strdup(in_dir("x.db"));

    fill_many(db);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kvr_plot_result r;
        char name[64], *script, *line, joined[4096] = "";

        ck_assert_msg(kvr_plot(db, cases[i].plot, dir, KVR_PLOT_SVG, &plain, &r) == KVR_OK, "%s",
                      kvr_error());
        snprintf(name, sizeof name, "%s.gp", cases[i].plot);
        script = slurp(in_dir(name));
        ck_assert_ptr_nonnull(script);
        for (line = strstr(script, "set label 1001"); line; line = strstr(line, "set label 1001")) {
            const char *from = strchr(line, '\'') + 1; /* joins the caption's lines */

            strncat(joined, from, strcspn(from, "'"));
            strcat(joined, " ");
            line += 10;
        }
        ck_assert_msg(strstr(joined, cases[i].says), "%s: '%s' is not in '%s'", cases[i].plot,
                      cases[i].says, joined);
        free(script);
    }
    free(db);
}
END_TEST

/* Sets (x, y) to the position of a method's label; false if it has none. */
static bool place_of(const char *script, const char *name, double *x, double *y)
{
    char want[64];
    const char *at;

    snprintf(want, sizeof want, "'%s' at ", name);
    at = strstr(script, want);
    return at && sscanf(at + strlen(want), "%lf,%lf", x, y) == 2;
}

/* Labels do not cover the words below the line of the chaos floor. */
START_TEST(labels_do_not_cover_the_words_at_the_floor)
{
    const double floor = 60;
    double x[2], y[2];

    for (int with = 0; with < 2; with++) {
        static const struct kvr_column columns[] = {
            { .name = "method" }, { .name = "family" },      { .name = "is_baseline" },
            { .name = "bits" },   { .name = "compression" }, { .name = "psnr_db" },
            { .name = "n_ok" },   { .name = "n_attempted" }, { .name = "psnr_floor" },
            { .name = "model" },
        };
        static const struct {
            const char *method;
            double compression, psnr;
        } rows[] = { { "BF16", 1, 100 }, { "RTN_UNDER_THE_WORDS", 6, 57 }, { "RTN_INT2", 8, 20 } };
        const struct kvr_plot_spec *psnr = kvr_plots;
        struct kvr_plot_result r;
        struct kvr_table *t;
        char *script;

        while (strcmp(psnr->name, "psnr") != 0)
            psnr++;
        ck_assert_int_eq(kvr_table_open(&t, 10, columns), KVR_OK);
        for (int i = 0; i < 3; i++) {
            const struct kvr_value v[] = { text(rows[i].method),
                                           text("RTN"),
                                           integer(i == 0),
                                           real(16 / rows[i].compression),
                                           real(rows[i].compression),
                                           real(rows[i].psnr),
                                           integer(4),
                                           integer(4),
                                           with ? real(floor) : null(),
                                           text("nano") };

            ck_assert_int_eq(kvr_table_add(t, v), KVR_OK);
        }
        ck_assert_int_eq(kvr_plot_table(psnr, t, "h", dir, KVR_PLOT_SVG, &plain, &r), KVR_OK);
        script = slurp(in_dir("psnr.gp"));
        ck_assert_ptr_nonnull(script);
        ck_assert_int_eq(strstr(script, "chaos floor") != NULL, with);
        ck_assert(place_of(script, "RTN_UNDER_THE_WORDS", &x[with], &y[with]));
        free(script);
        kvr_table_close(&t);
        for (const char *const *s = (const char *const[]){ "tsv", "gp", "svg", NULL }; *s; s++) {
            char name[16];

            snprintf(name, sizeof name, "psnr.%s", *s);
            unlink(in_dir(name));
        }
    }
    ck_assert_msg(x[0] != x[1] || y[0] != y[1], "the name stays at %g, %g", x[0], y[0]);
}
END_TEST

START_TEST(names_and_formats_are_checked)
{
    struct kvr_plot_result r;
    unsigned formats = 0;

    ck_assert_int_eq(kvr_plot("x.db", "parreto", dir, KVR_PLOT_SVG, &plain, &r), KVR_ENOTFOUND);
    ck_assert_msg(strstr(kvr_error(), "did you mean 'pareto'") != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_plot_formats_parse("svg,png", &formats), KVR_OK);
    ck_assert_uint_eq(formats, KVR_PLOT_SVG | KVR_PLOT_PNG);
    ck_assert_int_eq(kvr_plot_formats_parse("svg,gif", &formats), KVR_EINVAL);
    ck_assert_int_eq(kvr_plot_formats_parse("", &formats), KVR_EINVAL);
}
END_TEST

/* Ten methods, three of them close together, in a figure of column width: all have a label. */
START_TEST(a_narrow_figure_labels_ten_methods)
{
    static const struct row rows[] = {
        { "BF16", "BF16", 1.0, 1.0, 4, 21 },
        { "INT8_PTH", "INT8", 1.88, 0.9996, 4, 21 },
        { "FP8_PTH", "FP8", 1.88, 0.995, 4, 21 },
        { "RTN_INT4@study", "RTN", 3.18, 0.962, 4, 21 },
        { "RTN_INT4", "RTN", 3.18, 0.953, 4, 21 },
        { "KIVI_G32_INT2", "KIVI", 4.0, 0.93, 4, 21 },
        { "KIVI_INT2", "KIVI", 5.15, 0.66, 4, 21 },
        { "RTN_INT2", "RTN", 5.27, 0.76, 4, 21 },
        { "RTN_INT2@study", "RTN", 5.3, 0.6, 4, 21 },
        { "ROLLING_WINDOW frames=7.38281 fit=3", "WINDOW", 6.0, 0.975, 4, 21 },
    };
    const int n = sizeof rows / sizeof *rows;
    struct kvr_table *t = make_rows(rows, n);
    struct kvr_plot_result r;
    char *script;

    ck_assert_int_eq(kvr_plot_table(pareto(), t, "h", dir, KVR_PLOT_SVG,
                                    &(struct kvr_plot_style){ .width_in = 3.35 }, &r),
                     KVR_OK);
    script = slurp(in_dir("pareto.gp"));
    ck_assert_ptr_nonnull(script);
    for (int i = 0; i < n; i++)
        ck_assert_msg(strstr(script, rows[i].method) != NULL, "no label %s", rows[i].method);
    ck_assert_ptr_null(strstr(script, "without a label"));
    free(script);
    kvr_table_close(&t);
}
END_TEST

/* A label that has no space beside its point has a leader line if it stands on the bar of another
 * point. */
START_TEST(a_label_on_another_bar_has_a_leader)
{
    static const double px[] = { 40, 70 }, py[] = { 50, 50 };
    const struct kvr_line bars[] = { { 40, 0, 40, 100 }, { 70, 20, 70, 80 } };
    struct kvr_label l = { .x = 70, .y = 50, .width = 60 };
    const struct kvr_label_field f = { .left = 0,
                                       .right = 80,
                                       .bottom = 0,
                                       .top = 100,
                                       .height = 14,
                                       .radius = 6,
                                       .n_points = 2,
                                       .n_marks = 2,
                                       .px = px,
                                       .py = py,
                                       .n_bars = 2,
                                       .bars = bars };

    kvr_labels_place(&l, 1, &f);
    ck_assert(l.left <= 40 && l.left + 60 >= 40); /* there is no other space */
    ck_assert(l.leader);
}
END_TEST

/* Twelve marks on a small circle: no two labels overlap or leave the plot area. */
START_TEST(labels_do_not_overlap)
{
    enum { N = 12 };
    struct kvr_label l[N];
    double px[N], py[N];
    struct kvr_label_field f = { .left = 0,
                                 .right = 700,
                                 .bottom = 0,
                                 .top = 450,
                                 .height = 14,
                                 .radius = 6,
                                 .n_points = N,
                                 .n_marks = N,
                                 .px = px,
                                 .py = py };

    for (int i = 0; i < N; i++) {
        px[i] = 350 + 40 * cos(i * 0.5236);
        py[i] = 225 + 40 * sin(i * 0.5236);
        l[i] = (struct kvr_label){ .x = px[i], .y = py[i], .width = 90 };
    }
    kvr_labels_place(l, N, &f);
    for (int i = 0; i < N; i++) {
        ck_assert(l[i].left >= 0 && l[i].left + l[i].width <= 700);
        ck_assert(l[i].bottom >= 0 && l[i].bottom + 14 <= 450);
        for (int j = 0; j < i; j++) {
            bool apart = l[i].left + 90 <= l[j].left || l[j].left + 90 <= l[i].left ||
                         l[i].bottom + 14 <= l[j].bottom || l[j].bottom + 14 <= l[i].bottom;

            ck_assert_msg(apart, "labels %d and %d overlap", i, j);
        }
    }
}
END_TEST

static double from_text(const struct kvr_label *l, double height, double x, double y)
{
    return hypot(fmax(fmax(l->left - x, x - l->left - l->width), 0),
                 fmax(fmax(l->bottom - y, y - l->bottom - height), 0));
}

/* For pairs of close marks with other marks around them: a label is nearer to its own mark than to
 * any other. Otherwise it has a leader line and is near no mark. */
START_TEST(labels_are_nearest_to_their_own_mark)
{
    /* The marks of fifteen methods in a figure of compression against PSNR. */
    static const double px[] = { 135, 225, 313, 348, 490, 495, 496, 548,
                                 591, 605, 645, 653, 653, 648, 735 };
    static const double py[] = { 465, 242, 272, 234, 183, 194, 182, 163,
                                 169, 125, 97,  123, 96,  44,  142 };
    static const double width[] = { 35,  85, 62, 150, 62, 200, 155, 60,
                                    285, 92, 62, 110, 62, 108, 160 };
    enum { N = sizeof px / sizeof px[0] };
    struct kvr_label l[N];
    const struct kvr_label_field f = { .left = 75,
                                       .right = 795,
                                       .bottom = 0,
                                       .top = 480,
                                       .height = 14,
                                       .radius = 6,
                                       .n_points = N,
                                       .n_marks = N,
                                       .px = px,
                                       .py = py };
    int wrong = 0;

    for (int i = 0; i < N; i++)
        l[i] = (struct kvr_label){ .x = px[i], .y = py[i], .width = width[i] };
    kvr_labels_place(l, N, &f);
    for (int i = 0; i < N; i++) {
        const double own = from_text(&l[i], 14, px[i], py[i]);
        int taken_for = -1;

        for (int j = 0; j < N; j++)
            if (j != i && from_text(&l[i], 14, px[j], py[j]) < (l[i].leader ? 10 : own))
                taken_for = j;
        ck_assert_msg(taken_for < 0 || l[i].elsewhere, "name %d stands at mark %d", i, taken_for);
        wrong += taken_for >= 0;
    }
    ck_assert_int_le(wrong, 2); /* two may be wrong: three marks within 12 pixels have too little
                                 * space */
}
END_TEST

/* A label does not cover an interval's bar if there is space next to it. */
START_TEST(labels_do_not_cover_bars)
{
    const double x = 300, y = 200;
    const struct kvr_line bars[] = { { 50, y, 650, y }, { x, 150, x, 250 } };
    struct kvr_label l = { .x = x, .y = y, .width = 90 };
    const struct kvr_label_field f = { .left = 0,
                                       .right = 700,
                                       .bottom = 0,
                                       .top = 450,
                                       .height = 14,
                                       .radius = 6,
                                       .n_points = 1,
                                       .n_marks = 1,
                                       .px = &x,
                                       .py = &y,
                                       .n_bars = 2,
                                       .bars = bars };

    kvr_labels_place(&l, 1, &f);
    ck_assert_msg(l.bottom >= y || l.bottom + 14 <= y, "on the horizontal one: %g", l.bottom);
    ck_assert_msg(l.left >= x || l.left + 90 <= x, "on the vertical one: %g", l.left);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plot");
    TCase *tc = tcase_create("plot");

    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, near_one_is_stretched);
    tcase_add_test(tc, many_points_stay_readable);
    tcase_add_test(tc, script_and_data_are_golden);
    tcase_add_test(tc, pictures_are_deterministic);
    tcase_add_test(tc, settings_are_not_mixed);
    tcase_add_test(tc, axis_numbers_do_not_overlap);
    tcase_add_test(tc, machines_are_not_mixed);
    tcase_add_test(tc, nothing_to_draw_is_an_error);
    tcase_add_test(tc, one_point_has_axes);
    tcase_add_test(tc, without_gnuplot_the_files_stay);
    tcase_add_test(tc, folder_that_cannot_be_made_is_named);
    tcase_add_test(tc, every_plot_reads_the_store);
    tcase_add_test(tc, captions_say_what_is_shown);
    tcase_add_test(tc, labels_do_not_cover_the_words_at_the_floor);
    tcase_add_test(tc, names_and_formats_are_checked);
    tcase_add_test(tc, a_narrow_figure_labels_ten_methods);
    tcase_add_test(tc, a_label_on_another_bar_has_a_leader);
    tcase_add_test(tc, labels_do_not_overlap);
    tcase_add_test(tc, labels_are_nearest_to_their_own_mark);
    tcase_add_test(tc, labels_do_not_cover_bars);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
