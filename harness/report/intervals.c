/* intervals.c - see intervals.h. */
#include "harness/report/intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stats/nested.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

KVR_STATEMENT(table_intervals);
KVR_STATEMENT(table_equal_bytes);
enum { METHOD, SETTINGS, PROMPT, SEED, SSIM, PSNR, RUNTIME, BF16, NOMINAL, OK, BUDGET };

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "compression", .better = +1, .unit = "(x)", .digits = 2 },
    { .name = "ssim", .better = +1, .head = "SSIM", .digits = 4 },
    { .name = "ssim_lo" },
    { .name = "ssim_hi" },
    { .name = "tie", .digits = -1 },
    { .name = "psnr_db", .better = +1, .head = "PSNR", .unit = "(dB)", .digits = 2 },
    { .name = "psnr_lo" },
    { .name = "psnr_hi" },
    { .name = "ssim_jitter", .head = "SSIM jitter", .digits = 4 },
    { .name = "psnr_jitter", .head = "PSNR jitter", .unit = "(dB)", .digits = 2 },
    { .name = "runtime_s", .better = -1, .head = "runtime", .unit = "(s)", .digits = 2 },
    { .name = "runtime_lo" },
    { .name = "runtime_hi" },
    { .name = "n", .head = "n ok", .digits = -1 },
    { .name = "settings", .digits = -1 },
    /* this column is only in the table of methods with equal bit budgets */
    { .name = "budget", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0], MAX_LETTERS = 26 };

struct entry {
    int from, to; /* the method's rows [from, to) */
    double ssim;
    char tie[MAX_LETTERS + 1];
};

/* Buffers with room for all cells of one settings group (rows with equal settings). */
struct workspace {
    struct kvr_sample *a, *b, *d;
    double *x;
};

/* Properties of a table that its notes mention. */
struct about {
    int most; /* number of methods in the largest settings group */
    /* whether some method has fewer than 6 runtimes, too few for a 95 % interval of the median */
    bool extremes;
};

static int gather(const struct kvr_table *t, const struct entry *e, int column, double *x)
{
    int n = 0;

    for (int r = e->from; r < e->to; r++) {
        x[n] = kvr_table_number(t, r, column);
        n += isfinite(x[n]);
    }
    return n;
}

static void cells(const struct kvr_table *t, const struct entry *e, int column,
                  struct kvr_sample *s)
{
    for (int r = e->from; r < e->to; r++)
        s[r - e->from] = (struct kvr_sample){ .prompt = (int)kvr_table_number(t, r, PROMPT),
                                              .seed = (int)kvr_table_number(t, r, SEED),
                                              .x = kvr_table_number(t, r, column) };
}

/* Returns the standard deviation of a metric over draws (reruns with slightly perturbed noise) of
 * the same prompt and seed. */
static double jitter(const struct kvr_table *t, const struct entry *e, int column,
                     struct workspace *workspace)
{
    cells(t, e, column, workspace->a);
    return kvr_nest_within(workspace->a, e->to - e->from);
}

/* Averages the cells of each seed (repeats, and reruns with slightly perturbed noise), and writes
 * one sample per seed to `s`. Returns the number of samples. */
static int seeds(const struct kvr_table *t, const struct entry *e, int column, struct kvr_sample *s)
{
    cells(t, e, column, s);
    return kvr_nest(s, e->to - e->from, KVR_PER_SEED);
}

/* Averages a column over the cells of each prompt, writes the means to workspace->x, and returns
 * the number of prompts. */
static int prompts(const struct kvr_table *t, const struct entry *e, int column,
                   struct workspace *workspace)
{
    int n = kvr_nest(workspace->a, seeds(t, e, column, workspace->a), KVR_PER_PROMPT);

    kvr_nest_values(workspace->a, n, workspace->x);
    return n;
}

/* Writes three values: an average and the two ends of its 95 % interval. The average is the median
 * for runtimes, otherwise the mean over prompts. The average of a single value has no interval. */
static enum kvr_status put_interval(const struct kvr_table *t, const struct entry *e, int column,
                                    struct workspace *workspace, struct about *about,
                                    struct kvr_value *to)
{
    const bool time = column == RUNTIME;
    int n = time ? gather(t, e, column, workspace->x) : prompts(t, e, column, workspace);
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };

    to[0] = kvr_value_number(time ? kvr_median(workspace->x, n) : kvr_mean(workspace->x, n));
    if (n > 1)
        KVR_TRY(time ? kvr_median_interval(workspace->x, n, 0.95, &ci)
                     : kvr_mean_interval(workspace->x, n, 0.95, &ci));
    if (n > 1 && !time) {
        const struct kvr_metric *m = kvr_metric_find(column == SSIM ? "ssim" : "psnr");

        kvr_interval_within(&ci, m->lo, m->hi);
    }
    about->extremes = about->extremes || ci.min_max;
    to[1] = kvr_value_number(ci.lo);
    to[2] = kvr_value_number(ci.hi);
    return KVR_OK;
}

/* Sets *out to whether a and b tie: their difference in SSIM over their common prompts is not
 * significant (kvr_separable()). The p-value is Bonferroni-corrected for m comparisons. */
static enum kvr_status paired_interval(const struct kvr_table *t, const struct entry *a,
                                       const struct entry *b, int m, struct workspace *workspace,
                                       bool *out)
{
    struct kvr_comparison c;
    int n = seeds(t, a, SSIM, workspace->a);

    n = kvr_nest_pairs(workspace->a, n, workspace->b, seeds(t, b, SSIM, workspace->b),
                       workspace->d);
    n = kvr_nest(workspace->d, n, KVR_PER_PROMPT);
    kvr_nest_values(workspace->d, n, workspace->x);
    KVR_TRY(kvr_compare(workspace->x, n, 0.95, &c));
    *out = !kvr_separable(&c, c.p * m);
    return KVR_OK;
}

static int by_ssim(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;

    if (a->ssim != b->ssim && !(isnan(a->ssim) && isnan(b->ssim)))
        return isnan(b->ssim) || a->ssim > b->ssim ? -1 : 1;
    return a->from - b->from;
}

/* Names groups of methods that tie in SSIM by letters. In descending order of SSIM, each method is
 * compared with the first method of every letter so far. If a method ties with the first method of
 * a letter, the method also gets this letter. A method that gets no letter becomes the first method
 * of the next unused letter. The Bonferroni correction is for all n (n - 1) / 2 pairs, because any
 * pair may be compared. */
static enum kvr_status name_ties(const struct kvr_table *t, struct entry *e, int n,
                                 struct workspace *workspace)
{
    int head[MAX_LETTERS], n_heads = 0;

    for (int i = 0; i < n; i++) {
        size_t len = 0;

        if (isnan(e[i].ssim))
            continue;
        for (int h = 0; h < n_heads; h++) {
            bool tie;

            KVR_TRY(paired_interval(t, &e[head[h]], &e[i], n * (n - 1) / 2, workspace, &tie));
            if (tie)
                e[i].tie[len++] = (char)('a' + h);
        }
        if (len == 0 && n_heads < MAX_LETTERS) {
            head[n_heads] = i;
            e[i].tie[0] = (char)('a' + n_heads++);
        }
    }
    return KVR_OK;
}

/* Column of the bits per element. In the table of methods with equal bit budgets, this column
 * replaces the column `compression`. */
static const struct kvr_column bits_column = {
    .name = "bits", .better = -1, .unit = "(b)", .digits = 2
};

static enum kvr_status add_row(struct kvr_table *out, const struct kvr_table *t,
                               const struct entry *e, struct workspace *x, bool bits,
                               struct about *about)
{
    struct kvr_value v[N_COLUMNS];
    double bf16 = 0.0, nominal = 0.0;
    char count[32];
    int ok = 0;

    for (int r = e->from; r < e->to; r++)
        if (kvr_table_number(t, r, OK) == 1.0) {
            ok++;
            bf16 += kvr_table_number(t, r, BF16);
            nominal += kvr_table_number(t, r, NOMINAL);
        }
    snprintf(count, sizeof count, "%d/%d", ok, e->to - e->from);
    v[0] = kvr_value_text_or_none(kvr_table_text(t, e->from, METHOD));
    v[1] = kvr_value_number(bits ? 16 * nominal / bf16 : bf16 / nominal);
    KVR_TRY(put_interval(t, e, SSIM, x, about, &v[2]));
    v[5] = kvr_value_text_or_none(e->tie);
    KVR_TRY(put_interval(t, e, PSNR, x, about, &v[6]));
    v[9] = kvr_value_number(jitter(t, e, SSIM, x));
    v[10] = kvr_value_number(jitter(t, e, PSNR, x));
    KVR_TRY(put_interval(t, e, RUNTIME, x, about, &v[11]));
    v[14] = kvr_value_text_or_none(count);
    v[15] = kvr_value_text_or_none(kvr_table_text(t, e->from, SETTINGS));
    if (bits)
        v[16] = kvr_value_text_or_none(kvr_table_text(t, e->from, BUDGET));
    return kvr_table_add(out, v);
}

/* Adds the rows of all methods of one settings group, which is rows [from, to) of `t`. */
static enum kvr_status add_group(struct kvr_table *out, const struct kvr_table *t, int from, int to,
                                 bool bits, struct about *about)
{
    const size_t size = (size_t)(to - from) + 1;
    struct entry *e = calloc(size, sizeof *e);
    struct workspace workspace = { calloc(size, sizeof *workspace.a),
                                   calloc(size, sizeof *workspace.b),
                                   calloc(size, sizeof *workspace.d),
                                   calloc(size, sizeof *workspace.x) };
    enum kvr_status st = e && workspace.a && workspace.b && workspace.d && workspace.x
                             ? KVR_OK
                             : kvr_fail(KVR_ENOMEM, "report: out of memory");
    int n = 0;

    for (int r = from; st == KVR_OK && r < to; r++) {
        if (r == from ||
            strcmp(kvr_table_text(t, r - 1, METHOD), kvr_table_text(t, r, METHOD)) != 0)
            e[n++].from = r;
        e[n - 1].to = r + 1;
    }
    for (int i = 0; i < n; i++)
        e[i].ssim = kvr_mean(workspace.x, prompts(t, &e[i], SSIM, &workspace));
    if (st == KVR_OK && n) {
        qsort(e, (size_t)n, sizeof *e, by_ssim);
        st = name_ties(t, e, n, &workspace);
    }
    for (int i = 0; st == KVR_OK && i < n; i++)
        st = add_row(out, t, &e[i], &workspace, bits, about);
    about->most = n > about->most ? n : about->most;
    free(e);
    free(workspace.a);
    free(workspace.b);
    free(workspace.d);
    free(workspace.x);
    return st;
}

static bool same_group(const struct kvr_table *t, int a, int b, bool bits)
{
    return strcmp(kvr_table_text(t, a, SETTINGS), kvr_table_text(t, b, SETTINGS)) == 0 &&
           (!bits || strcmp(kvr_table_text(t, a, BUDGET), kvr_table_text(t, b, BUDGET)) == 0);
}

/* Makes the table from the SQL statement `sql`. Methods are compared within a group of rows with
 * equal settings. With `bits`, the rows of a group also have equal bit budgets. */
static enum kvr_status make(struct kvr_table **out, const char *db_path, const char *sql, bool bits,
                            bool *extremes)
{
    struct kvr_column shown[N_COLUMNS];
    struct kvr_table *t;
    char note[128];
    struct about about = { 0 };
    enum kvr_status st;

    memcpy(shown, columns, sizeof shown);
    if (bits)
        shown[1] = bits_column;
    KVR_TRY(kvr_table_query(&t, db_path, sql, NULL));
    st = kvr_table_open(out, bits ? N_COLUMNS : N_COLUMNS - 1, shown);
    for (int from = 0, to; st == KVR_OK && from < t->n_rows; from = to) {
        for (to = from + 1; to < t->n_rows; to++)
            if (!same_group(t, from, to, bits))
                break;
        st = add_group(*out, t, from, to, bits, &about);
    }
    kvr_table_close(&t);
    *extremes = about.extremes;
    snprintf(note, sizeof note,
             "intervals and letters in column tie treat prompts as samples; distinguishing %d "
             "methods needs at least %d prompts",
             about.most, kvr_pairs_needed(about.most * (about.most - 1) / 2, 0.95));
    if (st == KVR_OK)
        st = kvr_table_note(*out, note);
    if (st == KVR_OK)
        st = kvr_table_note(*out,
                            "means include reruns with perturbed noise, so intervals include the "
                            "variation of these reruns (jitter)");
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}

/* If `extremes` is true, adds a note that the minimum and maximum are given instead of a 95 %
 * interval of the median. Fewer than 6 runtimes are too few for such an interval. */
static enum kvr_status note_extremes(struct kvr_table *t, bool extremes)
{
    return extremes ? kvr_table_note(t, "for fewer than 6 runtimes, the interval is from their "
                                        "minimum to their maximum")
                    : KVR_OK;
}

static enum kvr_status make_noted(struct kvr_table **out, const char *db_path, const char *sql,
                                  bool bits)
{
    bool extremes;
    enum kvr_status st = make(out, db_path, sql, bits, &extremes);

    if (st == KVR_OK)
        st = note_extremes(*out, extremes);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}

enum kvr_status kvr_report_intervals(struct kvr_table **out, const char *db_path)
{
    return make_noted(out, db_path, kvr_statement_table_intervals, false);
}

static const char *const ends[] = { "psnr_lo",    "psnr_hi",    "ssim_lo", "ssim_hi",
                                    "runtime_lo", "runtime_hi", NULL };

static int find_row(const struct kvr_table *t, const char *method, const char *settings_of_it)
{
    const int settings = kvr_table_find(t, "settings");

    for (int r = 0; r < t->n_rows; r++)
        if (strcmp(kvr_table_text(t, r, METHOD), method) == 0 &&
            strcmp(kvr_table_text(t, r, settings), settings_of_it) == 0)
            return r;
    return -1;
}

enum kvr_status kvr_report_add_intervals(struct kvr_table *t, const char *db_path)
{
    const int method = kvr_table_find(t, "method"), settings = kvr_table_find(t, "of_settings");
    struct kvr_table *from;
    bool extremes;

    KVR_TRY(make(&from, db_path, kvr_statement_table_intervals, false, &extremes));
    for (int r = 0; r < t->n_rows; r++) {
        const int at = find_row(from, kvr_table_text(t, r, method), kvr_table_text(t, r, settings));

        for (int i = 0; at >= 0 && ends[i]; i++)
            t->cell[r * t->n_columns + kvr_table_find(t, ends[i])] =
                *kvr_table_at(from, at, kvr_table_find(from, ends[i]));
    }
    kvr_table_close(&from);
    kvr_table_drop(t, "of_settings");
    kvr_table_drop_empty(t, ends);
    return note_extremes(t, extremes);
}

enum kvr_status kvr_report_equal_bytes(struct kvr_table **out, const char *db_path)
{
    return make_noted(out, db_path, kvr_statement_table_equal_bytes, true);
}
