/* test_table.c - tables in five text formats: escaping of special characters, removal of columns
 * with one value, marks of the best values, and tables made by SQL queries. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/report/table/escape.h"
#include "harness/report/report.h"
#include "harness/report/stats/stats.h"
#include "tests/report/values.h"
#include "tests/suite.h"

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "ssim", .head = "SSIM", .digits = 3 },
    { .name = "bytes", .head = "KV", .unit = "(KiB)", .scale = 1.0 / 1024, .digits = 1 },
    { .name = "n", .digits = -1 },
    { .name = "model", .digits = -1 },
};

static struct kvr_table *sample(void)
{
    const struct kvr_value rows[3][5] = {
        { text("BF16"), real(1.0), integer(4096), integer(3), text("nano") },
        { text("RTN_INT4"), real(0.1 + 0.2), integer(1280), integer(10), text("nano") },
        { text("broken"), null(), null(), integer(0), text("nano") },
    };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 5, columns), KVR_OK);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(kvr_table_add(t, rows[r]), KVR_OK);
    return t;
}

/* malloc'd. */
static char *written(const struct kvr_table *t, enum kvr_table_format format)
{
    char *s = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&s, &n);

    ck_assert_int_eq(kvr_table_write(t, format, f), KVR_OK);
    fclose(f);
    return s;
}

static void expect(const struct kvr_table *t, enum kvr_table_format format, const char *want)
{
    char *got = written(t, format);

    ck_assert_str_eq(got, want);
    free(got);
}

START_TEST(formats)
{
    struct kvr_table *t = sample();
    const char *fold[] = { "model", "n", "absent", NULL };

    ck_assert_int_eq(kvr_table_fold(t, fold), KVR_OK);
    t->title = strdup("A_b & c");
    expect(t, KVR_TABLE_TEXT,
           "A_b & c\n"
           "\n"
           "method     SSIM  KV (KiB)   n\n"
           "--------  -----  --------  --\n"
           "BF16      1.000       4.0   3\n"
           "RTN_INT4  0.300       1.2  10\n"
           "broken        -         -   0\n"
           "\n"
           "model nano\n");
    kvr_table_close(&t);
}
END_TEST

START_TEST(markdown)
{
    struct kvr_table *t = sample();

    t->note = strdup("note");
    expect(t, KVR_TABLE_MD,
           "| method | SSIM | KV (KiB) | n | model |\n"
           "|---|---:|---:|---:|---|\n"
           "| BF16 | 1.000 | 4.0 | 3 | nano |\n"
           "| RTN_INT4 | 0.300 | 1.2 | 10 | nano |\n"
           "| broken | - | - | 0 | nano |\n"
           "\n"
           "note\n");
    kvr_table_close(&t);
}
END_TEST

/* Notes contain commas, so each has its own line, and folded columns are one note. */
START_TEST(each_note_has_its_line)
{
    static const struct kvr_column c[] = { { .name = "x" }, { .name = "model" }, { .name = "n" } };
    static const char *const fold[] = { "model", "n", NULL };
    const struct kvr_value row[] = { { .type = KVR_VALUE_INT, .i = 1 },
                                     { .type = KVR_VALUE_TEXT, .text = "nano", .n_bytes = 4 },
                                     { .type = KVR_VALUE_INT, .i = 3 } };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 3, c), KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, row), KVR_OK);
    ck_assert_int_eq(kvr_table_fold(t, fold), KVR_OK);
    ck_assert_int_eq(kvr_table_note(t, ""), KVR_OK);
    ck_assert_int_eq(kvr_table_note(t, "2 cells, both\nNOISY"), KVR_OK);
    ck_assert_str_eq(t->note, "model nano, n 3\n2 cells, both NOISY");
    expect(t, KVR_TABLE_TEXT, "x\n-\n1\n\nmodel nano, n 3\n2 cells, both NOISY\n");
    expect(t, KVR_TABLE_MD, "| x |\n|---:|\n| 1 |\n\nmodel nano, n 3\n\n2 cells, both NOISY\n");
    kvr_table_close(&t);
}
END_TEST

/* CSV and JSON contain the stored values: not scaled, not rounded, and with every digit that is
 * needed to read them back. */
START_TEST(csv_and_json_keep_the_values)
{
    struct kvr_table *t = sample();
    json_t *doc;
    char *s;

    expect(t, KVR_TABLE_CSV,
           "method,ssim,bytes,n,model\n"
           "BF16,1,4096,3,nano\n"
           "RTN_INT4,0.30000000000000004,1280,10,nano\n"
           "broken,,,0,nano\n");
    s = written(t, KVR_TABLE_JSON);
    doc = json_loads(s, 0, NULL);
    ck_assert_msg(doc != NULL, "not JSON: %s", s);
    ck_assert_int_eq((int)json_array_size(doc), 3);
    ck_assert(json_number_value(json_object_get(json_array_get(doc, 1), "ssim")) == 0.1 + 0.2);
    ck_assert(json_integer_value(json_object_get(json_array_get(doc, 0), "bytes")) == 4096);
    ck_assert(json_is_null(json_object_get(json_array_get(doc, 2), "ssim")));
    json_decref(doc);
    free(s);
    kvr_table_close(&t);
}
END_TEST

START_TEST(latex)
{
    struct kvr_table *t = sample();

    t->title = strdup("50% & more of --set, `x`");
    expect(t, KVR_TABLE_LATEX,
           "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"
           "\\begin{table}\n\\centering\n\\begin{tabular}{lrrrl}\n\\toprule\n"
           "method & SSIM & KV (KiB) & n & model \\\\\n\\midrule\n"
           "BF16 & 1.000 & 4.0 & 3 & nano \\\\\n"
           "RTN\\_INT4 & 0.300 & 1.2 & 10 & nano \\\\\n"
           "broken & -- & -- & 0 & nano \\\\\n"
           "\\bottomrule\n\\end{tabular}\n"
           "\\caption{50\\% \\& more of -{}-set, "
           "\\textasciigrave{}x\\textasciigrave{}}\n\\end{table}\n");
    kvr_table_close(&t);
}
END_TEST

/* LaTeX tables print the best value of a column in bold, for each combination of settings. The
 * reference (BF16) does not compete. Intervals and standard errors are printed with their
 * values. */
START_TEST(latex_marks_the_best)
{
    static const struct kvr_column cols[] = {
        { .name = "method" },
        { .name = "compression", .digits = 1, .better = +1 },
        { .name = "ssim", .digits = 2, .better = +1 },
        { .name = "ssim_lo", .digits = 2 },
        { .name = "ssim_hi", .digits = 2 },
        { .name = "psnr_db", .digits = 1, .better = +1 },
        { .name = "psnr_se", .digits = 1 },
        { .name = "peak_bytes", .digits = 0, .better = -1 },
        { .name = "window" },
    };
    static const struct {
        const char *method;
        double compression, ssim, lo, hi, psnr, se, peak;
        int window;
    } rows[] = {
        { "BF16", 1, 1, 1, 1, 100, 0, 9, 21 },       { "A", 3, 0.901, 0.85, 0.92, 30, 1, 4, 21 },
        { "B", 5, 0.899, 0.80, 0.95, 28, 2, 5, 21 }, { "A", 3, 0.70, NAN, NAN, 20, 1, 4, 9 },
        { "B", 5, 0.80, NAN, NAN, 21, 1, 5, 9 },
    };
    static const char *const settings[] = { "window", NULL };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 9, cols), KVR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bool sure = isfinite(rows[i].lo);

        ck_assert_int_eq(
            kvr_table_add(t, (struct kvr_value[]){ text(rows[i].method), real(rows[i].compression),
                                                   real(rows[i].ssim),
                                                   sure ? real(rows[i].lo) : null(),
                                                   sure ? real(rows[i].hi) : null(),
                                                   real(rows[i].psnr), real(rows[i].se),
                                                   real(rows[i].peak), integer(rows[i].window) }),
            KVR_OK);
    }
    ck_assert_int_eq(kvr_table_fold(t, settings), KVR_OK);
    expect(t, KVR_TABLE_LATEX,
           "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"
           "\\begin{table}\n\\centering\n\\renewcommand{\\arraystretch}{1.3}\n"
           "\\begin{tabular}{lrrrrr}\n\\toprule\n"
           "method & compression & ssim & psnr\\_db & peak\\_bytes & window \\\\\n\\midrule\n"
           "BF16 & 1.0 & $1.00_{-0.00}^{+0.00}$ & $100.0 \\pm 0.0$ & 9 & 21 \\\\\n"
           "A & 3.0 & $\\mathbf{0.90}_{-0.05}^{+0.02}$ & $\\mathbf{30.0} \\pm 1.0$ & "
           "\\textbf{4} & 21 \\\\\n"
           "B & \\textbf{5.0} & $\\mathbf{0.90}_{-0.10}^{+0.05}$ & $28.0 \\pm 2.0$ & 5 & 21 "
           "\\\\\n"
           "A & 3.0 & 0.70 & $20.0 \\pm 1.0$ & \\textbf{4} & 9 \\\\\n"
           "B & \\textbf{5.0} & \\textbf{0.80} & $\\mathbf{21.0} \\pm 1.0$ & 5 & 9 \\\\\n"
           "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
    kvr_table_close(&t);
}
END_TEST

/* A table with a column `bits` instead of `compression` recognizes the reference by its bits. */
START_TEST(latex_knows_the_reference_by_its_bits)
{
    static const struct kvr_column cols[] = { { .name = "method" },
                                              { .name = "bits", .digits = 0, .better = -1 },
                                              { .name = "ssim", .digits = 1, .better = +1 } };
    struct kvr_table *t;
    char *s;

    ck_assert_int_eq(kvr_table_open(&t, 3, cols), KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, (struct kvr_value[]){ text("BF16"), real(16), real(1) }),
                     KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, (struct kvr_value[]){ text("A"), real(4), real(0.8) }),
                     KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, (struct kvr_value[]){ text("B"), real(2), real(0.7) }),
                     KVR_OK);
    s = written(t, KVR_TABLE_LATEX);
    ck_assert_msg(strstr(s, "BF16 & 16 & 1.0 ") != NULL, "%s", s);
    ck_assert_msg(strstr(s, "A & 4 & \\textbf{0.8} ") != NULL, "%s", s);
    free(s);
    kvr_table_close(&t);
}
END_TEST

/* Text and Markdown show an interval in the cell of its mean. */
START_TEST(an_interval_stands_behind_its_mean)
{
    static const struct kvr_column cols[] = {
        { .name = "method", .digits = -1 },
        { .name = "psnr_db", .head = "PSNR", .unit = "(dB)", .digits = 1 },
        { .name = "psnr_lo" },
        { .name = "psnr_hi" },
        { .name = "peak_bytes", .head = "peak", .unit = "(KiB)", .scale = 1.0 / 1024, .digits = 0 },
        { .name = "peak_bytes_lo" },
        { .name = "peak_bytes_hi" },
        { .name = "n", .digits = -1 },
    };
    const struct kvr_value rows[][8] = {
        { text("BF16"), real(100), null(), null(), real(4096), real(2048), real(1048576),
          integer(1) },
        { text("RTN_INT4"), real(36.25), real(9.31), real(41), real(1024), real(1024), real(1024),
          integer(12) },
        { text("broken"), null(), null(), null(), null(), null(), null(), integer(0) },
    };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 8, cols), KVR_OK);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(kvr_table_add(t, rows[r]), KVR_OK);
    expect(t, KVR_TABLE_TEXT,
           "method    PSNR (dB) [from, to]  peak (KiB) [from, to]   n\n"
           "--------  --------------------  ---------------------  --\n"
           "BF16         100.0                        4 [2, 1024]   1\n"
           "RTN_INT4      36.2 [9.3, 41.0]            1 [1, 1]     12\n"
           "broken           -                        -             0\n");
    expect(t, KVR_TABLE_MD,
           "| method | PSNR (dB) [from, to] | peak (KiB) [from, to] | n |\n"
           "|---|---:|---:|---:|\n"
           "| BF16 | 100.0 | 4 [2, 1024] | 1 |\n"
           "| RTN_INT4 | 36.2 [9.3, 41.0] | 1 [1, 1] | 12 |\n"
           "| broken | - | - | 0 |\n");
    expect(t, KVR_TABLE_CSV,
           "method,psnr_db,psnr_lo,psnr_hi,peak_bytes,peak_bytes_lo,peak_bytes_hi,n\n"
           "BF16,100,,,4096,2048,1048576,1\n"
           "RTN_INT4,36.25,9.31,41,1024,1024,1024,12\n"
           "broken,,,,,,,0\n");
    kvr_table_close(&t);
}
END_TEST

/* Functions that SQL statements may call in addition to SQLite's. */
START_TEST(statements_have_intervals)
{
    static const double x[] = { 3, 1, 4, 1, 5, 9, 2 };
    char path[] = "/tmp/kvreel-test-table-XXXXXX";
    int fd = mkstemp(path);
    struct kvr_interval mean, median;
    struct kvr_table *t;

    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    fill_store(path);
    ck_assert_int_eq(kvr_mean_interval(x, 7, 0.95, &mean), KVR_OK);
    ck_assert_int_eq(kvr_median_interval(x, 7, 0.95, &median), KVR_OK);
    ck_assert_msg(kvr_table_query(&t, path,
                                  "WITH v(g, x) AS (VALUES ('few', 8.5), ('many', 3), ('many', 1), "
                                  "('many', 4.0), ('many', NULL), ('many', 1), ('many', 5), "
                                  "('many', 9), ('many', 2), ('none', NULL), ('word', 'a'))\n"
                                  "SELECT g, mean_lo(x), mean_hi(x), median(x), median_lo(x), "
                                  "median_hi(x) FROM v GROUP BY g ORDER BY g",
                                  NULL) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(t->n_rows, 4);
    ck_assert(kvr_table_number(t, 1, 1) == mean.lo && kvr_table_number(t, 1, 2) == mean.hi);
    ck_assert(kvr_table_number(t, 1, 3) == 3);
    ck_assert(kvr_table_number(t, 1, 4) == median.lo && kvr_table_number(t, 1, 5) == median.hi);
    ck_assert(kvr_table_number(t, 0, 3) == 8.5); /* one number has a median but no interval */
    for (int c = 1; c < 6; c++) {
        ck_assert(c == 3 || isnan(kvr_table_number(t, 0, c)));
        ck_assert(isnan(kvr_table_number(t, 2, c)) && isnan(kvr_table_number(t, 3, c)));
    }
    kvr_table_close(&t);
    ck_assert_int_eq(kvr_table_query(&t, path, "SELECT mean_lo(1, 2)", NULL), KVR_EINVAL);
    ck_assert_ptr_null(t);
    remove_store(path);
}
END_TEST

/* A header that a column already has is not replaced, which would also leak it. */
START_TEST(bytes_are_shown_in_mib)
{
    const struct kvr_column bytes[] = { { .name = "peak_bytes" },
                                        { .name = "kv_bytes", .head = "KV" },
                                        { .name = "io_bytes", .unit = "(B)" } };
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 3, bytes), KVR_OK);
    ck_assert_int_eq(kvr_table_mib(t), KVR_OK);
    ck_assert_ptr_null(t->column[0].head); /* the header is the column's name */
    ck_assert_str_eq(t->column[0].unit, "(MiB)");
    ck_assert_str_eq(t->column[1].head, "KV");
    ck_assert_str_eq(t->column[1].unit, "(MiB)");
    ck_assert_ptr_null(t->column[2].head);
    ck_assert_str_eq(t->column[2].unit, "(B)");
    kvr_table_close(&t);
}
END_TEST

START_TEST(no_rows)
{
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 2, columns), KVR_OK);
    expect(t, KVR_TABLE_TEXT, "method  SSIM\n------  ----\n");
    expect(t, KVR_TABLE_CSV, "method,ssim\n");
    expect(t, KVR_TABLE_JSON, "[]\n");
    expect(t, KVR_TABLE_JSONL, "");
    kvr_table_close(&t);
}
END_TEST

static int count(const char *s, char c)
{
    int n = 0;

    for (; *s; s++)
        n += *s == c;
    return n;
}

/* A name with every character that ends a cell in one of the formats. */
static const char hostile[] = "a|b,\"c\"\t\n\\d<x>&$#_{}^~%'`e`\x1b[31m\xff";

START_TEST(hostile_text_stays_in_its_cell)
{
    struct kvr_column c[] = { { .name = "m", .digits = -1 }, { .name = "k", .digits = -1 } };
    const struct kvr_value row[] = { text(hostile), integer(7) };
    struct kvr_table *t;
    json_t *doc;
    char *s;

    ck_assert_int_eq(kvr_table_open(&t, 2, c), KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, row), KVR_OK);

    /* heading, rule and one row, without control sequences of a terminal */
    s = written(t, KVR_TABLE_TEXT);
    ck_assert_ptr_null(strchr(s, '\x1b'));
    ck_assert_ptr_null(strchr(s, '\t'));
    ck_assert_ptr_nonnull(strstr(s, "  7\n"));
    ck_assert_int_eq(count(s, '\n'), 3);
    free(s);

    s = written(t, KVR_TABLE_MD);
    ck_assert_msg(
        strstr(s, "| a\\|b,\"c\"  \\\\d\\<x\\>\\&$\\#\\_{}^\\~%'\\`e\\` \\[31m\xff | 7 |\n") !=
            NULL,
        "%s", s);
    free(s);

    s = written(t, KVR_TABLE_CSV);
    ck_assert_str_eq(s, "m,k\n\"a|b,\"\"c\"\"\t\n\\d<x>&$#_{}^~%'`e`\x1b[31m\xff\",7\n");
    free(s);

    s = written(t, KVR_TABLE_JSON);
    doc = json_loads(s, 0, NULL);
    ck_assert_msg(doc != NULL, "not JSON: %s", s);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(doc, 0), "m")),
                     "a|b,\"c\"\t\n\\d<x>&$#_{}^~%'`e`\x1b[31m\xef\xbf\xbd");
    json_decref(doc);
    free(s);

    s = written(t, KVR_TABLE_LATEX);
    ck_assert_msg(
        strstr(s,
               "a\\textbar{}b,\\textquotedbl{}c\\textquotedbl{}  \\textbackslash{}d"
               "\\textless{}x\\textgreater{}\\&\\$\\#\\_\\{\\}\\textasciicircum{}"
               "\\textasciitilde{}\\%'\\textasciigrave{}e\\textasciigrave{} [31m\xff & 7 \\\\\n") !=
            NULL,
        "%s", s);
    free(s);
    kvr_table_close(&t);
}
END_TEST

START_TEST(utf8_is_checked_for_json)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "\xc3\xa9", "\"\xc3\xa9\"" },
        { "\xe2\x82\xac", "\"\xe2\x82\xac\"" },
        { "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"" },
        { "\xc0\x80", "\"\\ufffd\\ufffd\"" },                       /* overlong */
        { "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" },            /* surrogate */
        { "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" }, /* beyond the last */
        { "\xe2\x82", "\"\\ufffd\\ufffd\"" },                       /* cut short */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *s = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&s, &n);

        kvr_escape_json(f, cases[i].in);
        fclose(f);
        ck_assert_str_eq(s, cases[i].out);
        free(s);
    }
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_missing)
{
    struct kvr_column c[] = { { .name = "x", .digits = 2 } };
    const struct kvr_value nan_row = real(NAN), inf_row = real(INFINITY);
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_open(&t, 1, c), KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, &nan_row), KVR_OK);
    ck_assert_int_eq(kvr_table_add(t, &inf_row), KVR_OK);
    expect(t, KVR_TABLE_TEXT, "x\n-\n-\n-\n");
    expect(t, KVR_TABLE_JSON, "[\n {\"x\": null},\n {\"x\": null}\n]\n");
    expect(t, KVR_TABLE_JSONL, "{\"x\": null}\n{\"x\": null}\n");
    kvr_table_close(&t);
}
END_TEST

START_TEST(folding_keeps_what_varies)
{
    struct kvr_table *t = sample();
    const char *fold[] = { "model", "ssim", NULL };

    ck_assert_int_eq(kvr_table_fold(t, fold), KVR_OK);
    ck_assert_str_eq(t->note, "model nano");
    ck_assert_int_eq(t->n_columns, 4);
    ck_assert_int_eq(kvr_table_find(t, "model"), -1);
    ck_assert_str_eq(kvr_table_text(t, 1, 0), "RTN_INT4");
    ck_assert(kvr_table_number(t, 2, 3) == 0.0);
    ck_assert(isnan(kvr_table_number(t, 2, 1)));
    kvr_table_close(&t);
}
END_TEST

START_TEST(names_are_suggested)
{
    enum kvr_table_format format;
    struct kvr_table *t;

    ck_assert_int_eq(kvr_table_format_parse("latex", &format), KVR_OK);
    ck_assert_int_eq(format, KVR_TABLE_LATEX);
    ck_assert_int_eq(kvr_table_format_parse("xml", &format), KVR_EINVAL);
    ck_assert_int_eq(kvr_report_table(&t, "x.db", "sumary"), KVR_ENOTFOUND);
    ck_assert_msg(strstr(kvr_error(), "did you mean 'summary'") != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_report_table(&t, "/nonexistent/x.db", "summary"), KVR_ENOTFOUND);
    ck_assert_ptr_null(t);
}
END_TEST

/* Every table of the report can be made from the database that a sweep writes. */
START_TEST(every_report_reads_the_store)
{
    char path[] = "/tmp/kvreel-test-table-XXXXXX";
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    fill_store(path);
    for (int i = 0; kvr_reports[i].name; i++) {
        struct kvr_table *t;
        char *s;

        ck_assert_msg(kvr_report_table(&t, path, kvr_reports[i].name) == KVR_OK, "%s: %s",
                      kvr_reports[i].name, kvr_error());
        /* These tables are empty, because the database lacks the cells that they show: probes,
         * corrections, rollouts from given frames, language models, replays, a second suite, scaled
         * models, or enough prompts for claims. */
        if (strncmp(kvr_reports[i].name, "probes", 6) == 0 ||
            strcmp(kvr_reports[i].name, "truth") == 0 || strcmp(kvr_reports[i].name, "bias") == 0 ||
            strcmp(kvr_reports[i].name, "suites") == 0 ||
            strcmp(kvr_reports[i].name, "scaled") == 0 ||
            strcmp(kvr_reports[i].name, "prefill") == 0 ||
            strcmp(kvr_reports[i].name, "replay") == 0 ||
            strcmp(kvr_reports[i].name, "claims") == 0 ||
            strcmp(kvr_reports[i].name, "variance") == 0 ||
            strcmp(kvr_reports[i].name, "sensitivity") == 0) {
            ck_assert_int_eq(t->n_rows, 0);
            kvr_table_close(&t);
            continue;
        }
        s = written(t, KVR_TABLE_TEXT);
        ck_assert_msg(strstr(s, "BF16") != NULL || strstr(s, "TIMEOUT") != NULL, "%s", s);
        ck_assert_msg(strstr(s, "model nano") != NULL, "%s", s);
        free(s);
        kvr_table_close(&t);
    }
    remove_store(path);
}
END_TEST

START_TEST(summary_shows_counts_and_misses)
{
    char path[] = "/tmp/kvreel-test-table-XXXXXX";
    int fd = mkstemp(path);
    struct kvr_table *t;

    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(path);
    fill_store(path);
    ck_assert_msg(kvr_report_table(&t, path, "summary") == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(t->n_rows, 3);
    ck_assert_str_eq(kvr_table_text(t, 0, kvr_table_find(t, "method")), "BF16");
    ck_assert_str_eq(kvr_table_text(t, 1, kvr_table_find(t, "method")), "RTN_INT4");
    ck_assert_str_eq(kvr_table_text(t, 1, kvr_table_find(t, "n")), "2/2");
    ck_assert(kvr_table_number(t, 1, kvr_table_find(t, "compression")) == 3.2);
    ck_assert(kvr_table_number(t, 1, kvr_table_find(t, "bits")) == 5.0);
    ck_assert_str_eq(kvr_table_text(t, 2, kvr_table_find(t, "method")), "RTN_INT2");
    ck_assert_str_eq(kvr_table_text(t, 2, kvr_table_find(t, "n")), "0/1");
    ck_assert(isnan(kvr_table_number(t, 2, kvr_table_find(t, "ssim"))));
    ck_assert_int_eq(kvr_table_find(t, "of_settings"), -1);
    kvr_table_close(&t);
    remove_store(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("table");
    TCase *tc = tcase_create("table");

    tcase_set_timeout(tc, 60);

    tcase_add_test(tc, formats);
    tcase_add_test(tc, markdown);
    tcase_add_test(tc, each_note_has_its_line);
    tcase_add_test(tc, csv_and_json_keep_the_values);
    tcase_add_test(tc, latex);
    tcase_add_test(tc, latex_marks_the_best);
    tcase_add_test(tc, latex_knows_the_reference_by_its_bits);
    tcase_add_test(tc, an_interval_stands_behind_its_mean);
    tcase_add_test(tc, statements_have_intervals);
    tcase_add_test(tc, bytes_are_shown_in_mib);
    tcase_add_test(tc, no_rows);
    tcase_add_test(tc, hostile_text_stays_in_its_cell);
    tcase_add_test(tc, utf8_is_checked_for_json);
    tcase_add_test(tc, numbers_that_are_not_finite_are_missing);
    tcase_add_test(tc, folding_keeps_what_varies);
    tcase_add_test(tc, names_are_suggested);
    tcase_add_test(tc, every_report_reads_the_store);
    tcase_add_test(tc, summary_shows_counts_and_misses);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
