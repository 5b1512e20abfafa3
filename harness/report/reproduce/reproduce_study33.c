/* reproduce_study33.c - reproduces all eight columns of the 33-method study for both suites.
 *
 * Compression and peak memory are computed for wan-1.3b at 165 frames, from the format and from the
 * way in which the study stored codes. They are compared with the four decimals of the study's
 * records. The other columns are compared with the database's cells of the methods' variants
 * NAME@study. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/report/table/published.h"
#include "harness/report/reproduce/reproduce_papers.h"
#include "harness/store/statement.h"

enum { LATENT_FRAMES = 42 };
static const double GiB = 1073741824.0;

struct suite {
    const char *name, *table;
    struct kvr_published printed;
    const struct kvr_published *ratio, *peak;
    struct kvr_table *db; /* NULL: no database */
};

/* Returns a note if the study computed a method's row from fewer than ten prompts. The study does
 * not mark these rows. */
static const char *few_prompts(const char *method)
{
    static const char *const few[][2] = {
        { "QUAROT_KV_INT4_REFRESH", "; published from 2 of 10 prompts" },
        { "KIVI_K2_V4", "; published from 3 of 10 prompts" },
        { "RTN_K2_V4", "; published from 5 of 10 prompts" },
    };

    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        if (strcmp(few[i][0], method) == 0)
            return few[i][1];
    return "";
}

static enum kvr_status open_scheme(struct kvr_scheme **scheme, const char *method,
                                   const char *suite)
{
    const struct kvr_setting budgets = { .name = "layer_budget", .value = suite };
    char spec[128];

    snprintf(spec, sizeof spec, "%s@study", method);
    return kvr_scheme_open(scheme, spec, &budgets, 1);
}

static enum kvr_status add_ratio(struct kvr_repro *r, const struct suite *s, const char *method,
                                 const struct kvr_scheme *scheme)
{
    int at = kvr_published_find(s->ratio, method);
    struct kvr_prediction p;
    double value, rounding = NAN, share, lo, hi;
    char reason[256] = "";
    struct kvr_repro_row row = {
        .suite = s->name,
        .method = method,
        .quantity = "compression",
        .published = at < 0 ? "" : kvr_published_cell(s->ratio, at, s->name),
        .tolerance = NAN,
        .basis = "computed for wan-1.3b, 165 frames",
        .reason = reason,
    };

    KVR_TRY(kvr_predict(scheme, &kvr_wan_1_3b,
                        &(struct kvr_predict_run){ .latent_frames = LATENT_FRAMES }, &p));
    row.measured = (double)p.bf16 / (double)p.nominal;
    if (!kvr_published_number(row.published, &value, &rounding)) {
        row.verdict = KVR_VERDICT_NOT_PUBLISHED;
        snprintf(reason, sizeof reason, "the study publishes no compression ratio of this method");
        return kvr_repro_add(r, &row);
    }
    row.tolerance = rounding;
    lo = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_max : p.nominal);
    hi = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_min : p.nominal);
    /* The published decimal is not exact in binary, so the tolerance for its rounding is increased
     * slightly. */
    rounding *= 1.0 + 1e-9;
    if (fabs(lo - value) <= rounding && fabs(hi - value) <= rounding) {
        row.verdict = KVR_VERDICT_EXACT;
    } else if (p.data_dependent && value >= lo && value <= hi) {
        row.verdict = KVR_VERDICT_BOUNDS;
        row.tolerance = NAN;
        share = (double)p.bf16 / value - (double)p.nominal;
        snprintf(reason, sizeof reason,
                 "the compression ratio depends on the data: from %.4f to %.4f; published size "
                 "minus predicted nominal size: %.2f MB (%.3f %% of the BF16 size)",
                 lo, hi, share / 1e6, 100.0 * share / (double)p.bf16);
    } else {
        row.verdict = KVR_VERDICT_OUT;
    }
    return kvr_repro_add(r, &row);
}

static enum kvr_status add_peak(struct kvr_repro *r, const struct suite *s, const char *method,
                                const struct kvr_scheme *scheme)
{
    /* Size in GiB of K and V of one layer in BF16. The published peak may differ from the computed
     * peak by this size, because a peak may include temporary copies of one layer. */
    const double one_layer = 2.0 * 2.0 * LATENT_FRAMES * kvr_wan_1_3b.tokens_per_frame *
                             kvr_wan_1_3b.n_heads * kvr_wan_1_3b.head_dim / GiB;
    int at = kvr_published_find(s->peak, method);
    struct kvr_study_peak p;
    double value, rounding;
    char reason[320] = "";
    struct kvr_repro_row row = {
        .suite = s->name,
        .method = method,
        .quantity = "peak_vram_gib",
        .published = at < 0 ? "" : kvr_published_cell(s->peak, at, s->name),
        .measured = NAN,
        .tolerance = NAN,
        .basis = "peak predicted for codes in the study's data types",
        .reason = reason,
    };

    KVR_TRY(kvr_predict_study_peak(scheme, &p));
    if (p.known)
        row.measured = (double)p.peak / GiB;
    snprintf(reason, sizeof reason,
             "H1: the study's peak memory includes the previous prompt's video (%.4f GiB); H2: the "
             "study's storage of K and V: %s; with packed codes the peak would be %.4f GiB",
             (double)p.left_over / GiB, p.stored, (double)p.packed_peak / GiB);
    if (!kvr_published_number(row.published, &value, &rounding)) {
        row.verdict = KVR_VERDICT_NOT_PUBLISHED;
    } else if (!p.known) {
        row.verdict = KVR_VERDICT_NOT_COMPARABLE;
        snprintf(reason, sizeof reason,
                 "H7: the study's code for this method was not published, so kvreel cannot predict "
                 "the peak memory; the study's peak is 6 to 8 GiB larger than the resident cache");
    } else if (fabs(row.measured - value) <= rounding * (1.0 + 1e-9)) {
        row.verdict = KVR_VERDICT_EXACT;
        row.tolerance = rounding;
    } else {
        row.tolerance = one_layer;
        row.verdict =
            fabs(row.measured - value) <= one_layer ? KVR_VERDICT_WITHIN : KVR_VERDICT_OUT;
    }
    return kvr_repro_add(r, &row);
}

/* A published column that kvreel has to measure: its column in the database, and the reason why the
 * values cannot be equal. */
static const struct run_column {
    const char *published, *quantity;
    /* column of reproduce_study.sql; NULL: kvreel does not measure it */
    const char *column;
    /* whether the table shows a computed value instead of the measured one, unless the caller
     * requests measured values (kvr_repro.measured) */
    bool asked;
    const char *reason;
} run_columns[] = {
    { "compression", "compression", "compression", true,
      "kvreel's compression ratio is BF16 bytes divided by nominal bytes of the cached frames" },
    { "peak_vram_gb", "peak_vram_gib", "peak_gib", true,
      "H1, H2: the study's peak memory includes the previous prompt's video, and the study stores "
      "INT4 and INT2 codes as int16 or int8" },
    { "ssim", "ssim", "ssim", false,
      "H10: the study computes this metric from lossy MP4 files, kvreel from uncompressed frames" },
    { "psnr_db", "psnr_db", "psnr_db", false,
      "H5: the study averages PSNR in dB, including inf of identical frames; kvreel averages the "
      "squared error before the conversion to dB" },
    { "runtime_s", "runtime_s", "runtime_s", false,
      "the study used other hardware; H3, H4: the study measures times on the host, without "
      "warm-up or repeats" },
    { "lpips", "lpips", "lpips", false,
      "H10: the study computes this metric from lossy MP4 files, kvreel from uncompressed frames" },
    { "imaging_quality", "imaging_quality", "imaging_quality", false,
      "H9: the study scores imaging quality from 0 to 1 in summaries, from 0 to 100 for single "
      "videos" },
    { "drift_last", "drift_last", NULL, false,
      "kvreel does not compute the study's drift, which needs VBench's trained networks; on "
      "MovieGen the study scores only whole videos and reports no drift" },
};

KVR_STATEMENT(reproduce_study);

/* Returns the database's row for this method and suite, or -1. */
static int measured_row(const struct suite *s, const char *method)
{
    int name, suite;

    if (!s->db)
        return -1;
    name = kvr_table_find(s->db, "name");
    suite = kvr_table_find(s->db, "suite");
    for (int i = 0; i < s->db->n_rows; i++)
        if (strcmp(kvr_table_text(s->db, i, name), method) == 0 &&
            strncmp(kvr_table_text(s->db, i, suite), s->name, strlen(s->name)) == 0)
            return i;
    return -1;
}

/* Returns the bytes of all keys and values in BF16, for the study's model and video length. */
static double study_bytes(void)
{
    const struct kvr_geometry *g = &kvr_wan_1_3b;

    return 2.0 * 2.0 * LATENT_FRAMES * g->tokens_per_frame * g->n_layers * g->n_heads * g->head_dim;
}

static double measured_number(const struct suite *s, int row, const char *column)
{
    return kvr_table_number(s->db, row, kvr_table_find(s->db, column));
}

static enum kvr_status add_run_column(struct kvr_repro *r, const struct suite *s, int printed,
                                      const char *method, const struct run_column *c)
{
    int at = measured_row(s, method);
    char reason[320], basis[160] = "";
    struct kvr_repro_row row = {
        .suite = s->name,
        .method = method,
        .quantity = c->quantity,
        .published = printed < 0 ? "" : kvr_published_cell(&s->printed, printed, c->published),
        .measured = NAN,
        .tolerance = NAN,
        .basis = basis,
        .reason = reason,
    };

    if (at >= 0 && c->column) {
        row.measured = measured_number(s, at, c->column);
        snprintf(basis, sizeof basis, "%s, n = %.0f",
                 kvr_table_text(s->db, at, kvr_table_find(s->db, "model")),
                 measured_number(s, at, "n"));
    }
    if (isnan(row.measured) && r->measured)
        return KVR_OK;
    if (isnan(row.measured)) {
        row.verdict = KVR_VERDICT_NOT_MEASURED;
        if (c->column && r->db_path && at < 0)
            snprintf(reason, sizeof reason,
                     "the database has no finished cell of %s@study on suite %s", method, s->name);
        else
            snprintf(reason, sizeof reason, "%s",
                     !c->column ? c->reason
                     : !r->db_path
                         ? "no database given; add --db FILE"
                         : "the finished cells of this method have no value of this metric");
    } else {
        const bool same = measured_number(s, at, "bf16_bytes") == study_bytes();

        row.verdict = row.published[0] ? KVR_VERDICT_NOT_COMPARABLE : KVR_VERDICT_NOT_PUBLISHED;
        snprintf(reason, sizeof reason, "%s%s%s",
                 same ? "" : "another model or video length than the study's; ", c->reason,
                 few_prompts(method));
    }
    return kvr_repro_add(r, &row);
}

/* Writes the ranks of x [n]. Equal values get their average rank. */
static void rank(const double *x, int n, double *to)
{
    for (int i = 0; i < n; i++) {
        int below = 0, equal = 0;

        for (int j = 0; j < n; j++) {
            below += x[j] < x[i];
            equal += x[j] == x[i];
        }
        to[i] = below + (equal + 1) / 2.0;
    }
}

static double correlation(const double *x, const double *y, int n)
{
    double mx = 0.0, my = 0.0, xy = 0.0, xx = 0.0, yy = 0.0;

    for (int i = 0; i < n; i++) {
        mx += x[i] / n;
        my += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
    }
    return xy / sqrt(xx * yy);
}

/* Adds a note with the rank correlation between the published and the measured SSIM. SSIM values of
 * different models cannot be compared, but rankings of the methods can. */
static enum kvr_status note_ranks(struct kvr_repro *r, const struct suite *s)
{
    enum { MAX = 64 };
    double p[MAX], m[MAX], rp[MAX], rm[MAX], rounding;
    char text[160];
    int n = 0;

    for (int i = 0; i < s->printed.n_rows && n < MAX; i++) {
        const char *method = kvr_published_cell(&s->printed, i, "method");
        int at = measured_row(s, method);

        if (at < 0 ||
            !kvr_published_number(kvr_published_cell(&s->printed, i, "ssim"), &p[n], &rounding))
            continue;
        m[n] = kvr_table_number(s->db, at, kvr_table_find(s->db, "ssim"));
        n += isfinite(m[n]);
    }
    if (n < 5)
        return KVR_OK;
    rank(p, n, rp);
    rank(m, n, rm);
    snprintf(
        text, sizeof text,
        "rank correlation of published and measured SSIM on %s: Spearman's rho %.3f, %d methods",
        s->name, correlation(rp, rm, n), n);
    return kvr_table_note(r->out->table, text);
}

static enum kvr_status add_method(struct kvr_repro *r, const struct suite *s, const char *method)
{
    int printed = kvr_published_find(&s->printed, method);
    struct kvr_scheme *scheme = NULL;
    enum kvr_status st = KVR_OK;

    /* A method without a published row was not run by the study on this suite. */
    if (printed < 0)
        return KVR_OK;
    if (!r->measured &&
        (kvr_repro_wants(r, "compression") || kvr_repro_wants(r, "peak_vram_gib"))) {
        KVR_TRY(open_scheme(&scheme, method, s->name));
        if (kvr_repro_wants(r, "compression"))
            st = add_ratio(r, s, method, scheme);
        if (st == KVR_OK && kvr_repro_wants(r, "peak_vram_gib"))
            st = add_peak(r, s, method, scheme);
        kvr_scheme_close(&scheme);
    }
    for (size_t i = 0; st == KVR_OK && i < sizeof run_columns / sizeof run_columns[0]; i++)
        if (r->measured || !run_columns[i].asked)
            st = add_run_column(r, s, printed, method, &run_columns[i]);
    return st;
}

static enum kvr_status add_suite(struct kvr_repro *r, struct suite *s)
{
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_published_read(&s->printed, s->table));
    for (int i = 0; st == KVR_OK && i < s->ratio->n_rows; i++)
        st = add_method(r, s, kvr_published_cell(s->ratio, i, "method"));
    if (st == KVR_OK && s->db && kvr_repro_wants(r, "ssim"))
        st = note_ranks(r, s);
    kvr_published_free(&s->printed);
    return st;
}

enum kvr_status kvr_reproduce_study33(struct kvr_repro *r)
{
    struct kvr_published ratio = { 0 }, peak = { 0 };
    struct kvr_table *db = NULL;
    struct suite suites[] = {
        { .name = "moviegen", .table = "kvquant33_moviegen", .ratio = &ratio, .peak = &peak },
        { .name = "storyeval", .table = "kvquant33_storyeval", .ratio = &ratio, .peak = &peak },
    };
    enum kvr_status st = kvr_published_read(&ratio, "kvquant33_compression");

    if (st == KVR_OK)
        st = kvr_published_read(&peak, "kvquant33_peak_gib");
    if (st == KVR_OK && r->db_path)
        st = kvr_table_query(&db, r->db_path, kvr_statement_reproduce_study, NULL);
    for (int i = 0; st == KVR_OK && i < 2; i++) {
        suites[i].db = db;
        st = add_suite(r, &suites[i]);
    }
    kvr_table_close(&db);
    kvr_published_free(&ratio);
    kvr_published_free(&peak);
    return st;
}
