/* intervals.c - see intervals.h. */
#include "harness/report/intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/stats/stats.h"

static const char cells_sql[] =
    "SELECT w.method, w.settings || ', ' || w.machine AS settings,\n"
    "  w.suite || '/' || w.prompt_id || '/' || w.seed || '/' || w.repeat AS unit,\n"
    "  iif(w.outcome = 'OK', w.ssim, NULL), iif(w.outcome = 'OK', w.psnr_db, NULL),\n"
    "  iif(w.verdict = 'VALID', w.runtime_s, NULL), iif(w.outcome = 'OK', w.bf16_bytes, NULL),\n"
    "  iif(w.outcome = 'OK', w.nominal_bytes, NULL), w.outcome = 'OK'\n"
    "FROM cells_wide w WHERE w.run_kind = 'bench'\n"
    "ORDER BY settings, w.is_baseline DESC, w.method, unit";
enum { METHOD, SETTINGS, UNIT, SSIM, PSNR, RUNTIME, BF16, NOMINAL, OK };

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "compression", .unit = "(x)", .digits = 2 },
    { .name = "ssim", .head = "SSIM", .digits = 4 },
    { .name = "ssim_lo", .head = "from", .digits = 4 },
    { .name = "ssim_hi", .head = "to", .digits = 4 },
    { .name = "tie", .digits = -1 },
    { .name = "psnr_db", .head = "PSNR", .unit = "(dB)", .digits = 2 },
    { .name = "psnr_lo", .head = "from", .digits = 2 },
    { .name = "psnr_hi", .head = "to", .digits = 2 },
    { .name = "runtime_s", .head = "runtime", .unit = "(s)", .digits = 2 },
    { .name = "runtime_lo", .head = "from", .digits = 2 },
    { .name = "runtime_hi", .head = "to", .digits = 2 },
    { .name = "n", .head = "n ok", .digits = -1 },
    { .name = "settings", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0], MAX_LETTERS = 26 };

struct entry {
    int from, to; /* rows */
    double ssim;
    char tie[MAX_LETTERS + 1];
};

static struct kvr_value number(double v)
{
    return isfinite(v) ? (struct kvr_value){ .type = KVR_VALUE_REAL, .r = v }
                       : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

static struct kvr_value text(const char *s)
{
    return *s ? (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) }
              : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

static int gather(const struct kvr_table *t, const struct entry *e, int column, double *x)
{
    int n = 0;

    for (int r = e->from; r < e->to; r++) {
        x[n] = kvr_table_number(t, r, column);
        n += isfinite(x[n]);
    }
    return n;
}

/* Three values: the mean or median, and its interval; none of one cell. */
static enum kvr_status put_interval(const struct kvr_table *t, const struct entry *e, int column,
                                    double *x, struct kvr_value *to)
{
    int n = gather(t, e, column, x);
    struct kvr_interval ci = { .lo = NAN, .hi = NAN };

    to[0] = number(column == RUNTIME ? kvr_median(x, n) : kvr_mean(x, n));
    if (n > 1)
        KVR_TRY(column == RUNTIME ? kvr_median_interval(x, n, 0.95, &ci)
                                  : kvr_bootstrap_mean(x, n, 0.95, 0, &ci));
    to[1] = number(ci.lo);
    to[2] = number(ci.hi);
    return KVR_OK;
}

/* Can a and b not be told apart by SSIM over the prompts that both have? */
static bool tied(const struct kvr_table *t, const struct entry *a, const struct entry *b, double *d)
{
    struct kvr_interval ci;
    int n = 0;

    for (int i = a->from, j = b->from; i < a->to && j < b->to;) {
        int s = strcmp(kvr_table_text(t, i, UNIT), kvr_table_text(t, j, UNIT));

        if (s == 0) {
            d[n] = kvr_table_number(t, i, SSIM) - kvr_table_number(t, j, SSIM);
            n += isfinite(d[n]);
        }
        i += s <= 0;
        j += s >= 0;
    }
    if (n == 0)
        return false;
    if (n == 1 || fabs(kvr_mean(d, n)) < 1e-12)
        return fabs(kvr_mean(d, n)) < 1e-12;
    return kvr_bootstrap_mean(d, n, 0.95, 0, &ci) == KVR_OK && ci.lo <= 0.0 && ci.hi >= 0.0;
}

static int by_ssim(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;

    if (a->ssim != b->ssim && !(isnan(a->ssim) && isnan(b->ssim)))
        return isnan(b->ssim) || a->ssim > b->ssim ? -1 : 1;
    return a->from - b->from;
}

/* From the best down: whoever ties with nobody above who has a letter of his own gets the next. */
static void name_ties(const struct kvr_table *t, struct entry *e, int n, double *d)
{
    int head[MAX_LETTERS], n_heads = 0;

    for (int i = 0; i < n; i++) {
        size_t len = 0;

        if (isnan(e[i].ssim))
            continue;
        for (int h = 0; h < n_heads; h++)
            if (tied(t, &e[head[h]], &e[i], d))
                e[i].tie[len++] = (char)('a' + h);
        if (len == 0 && n_heads < MAX_LETTERS) {
            head[n_heads] = i;
            e[i].tie[0] = (char)('a' + n_heads++);
        }
    }
}

static enum kvr_status add_row(struct kvr_table *out, const struct kvr_table *t,
                               const struct entry *e, double *x)
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
    v[0] = text(kvr_table_text(t, e->from, METHOD));
    v[1] = number(bf16 / nominal);
    KVR_TRY(put_interval(t, e, SSIM, x, &v[2]));
    v[5] = text(e->tie);
    KVR_TRY(put_interval(t, e, PSNR, x, &v[6]));
    KVR_TRY(put_interval(t, e, RUNTIME, x, &v[9]));
    v[12] = text(count);
    v[13] = text(kvr_table_text(t, e->from, SETTINGS));
    return kvr_table_add(out, v);
}

/* Rows [from, to) share their settings. */
static enum kvr_status add_group(struct kvr_table *out, const struct kvr_table *t, int from, int to)
{
    struct entry *e = calloc((size_t)(to - from) + 1, sizeof *e);
    double *x = calloc((size_t)(to - from) + 1, sizeof *x);
    enum kvr_status st = e && x ? KVR_OK : kvr_fail(KVR_ENOMEM, "report: no memory");
    int n = 0;

    for (int r = from; st == KVR_OK && r < to; r++) {
        if (r == from ||
            strcmp(kvr_table_text(t, r - 1, METHOD), kvr_table_text(t, r, METHOD)) != 0)
            e[n++].from = r;
        e[n - 1].to = r + 1;
    }
    for (int i = 0; i < n; i++)
        e[i].ssim = kvr_mean(x, gather(t, &e[i], SSIM, x));
    if (st == KVR_OK && n) {
        qsort(e, (size_t)n, sizeof *e, by_ssim);
        name_ties(t, e, n, x);
    }
    for (int i = 0; st == KVR_OK && i < n; i++)
        st = add_row(out, t, &e[i], x);
    free(e);
    free(x);
    return st;
}

enum kvr_status kvr_report_intervals(struct kvr_table **out, const char *db_path)
{
    struct kvr_table *t;
    enum kvr_status st;

    KVR_TRY(kvr_table_query(&t, db_path, cells_sql, NULL));
    st = kvr_table_open(out, N_COLUMNS, columns);
    for (int from = 0, to; st == KVR_OK && from < t->n_rows; from = to) {
        for (to = from + 1; to < t->n_rows; to++)
            if (strcmp(kvr_table_text(t, from, SETTINGS), kvr_table_text(t, to, SETTINGS)) != 0)
                break;
        st = add_group(*out, t, from, to);
    }
    kvr_table_close(&t);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
