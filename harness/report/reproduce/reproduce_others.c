/* reproduce_others.c - reproduces the tables of the paper on bias correction, and PaFu-KV's table
 * of cache sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/report/table/published.h"
#include "harness/report/reproduce/reproduce_papers.h"
#include "harness/store/statement.h"

/* ------------------------------------------------------------- paper on bias correction */

static const struct {
    const char *scheme;
    const char *name; /* closest method of kvreel */
} schemes[] = { { "RTN", "ASYM2_G32" }, { "QuaRot+RTN", "QUAROT_KV_INT2" } };

KVR_STATEMENT(reproduce_bias);

static double measured_bias(const struct kvr_table *db, const char *name, const char *correction,
                            const char *quantity, char *basis, size_t n_basis)
{
    char method[128];

    snprintf(method, sizeof method, "%s%s%s", name, strcmp(correction, "off") ? "+" : "",
             strcmp(correction, "off") ? correction : "");
    for (int i = 0; db && i < db->n_rows; i++) {
        if (strcmp(kvr_table_text(db, i, kvr_table_find(db, "method")), method) != 0)
            continue;
        snprintf(basis, n_basis, "%s as %s, n = %.0f",
                 kvr_table_text(db, i, kvr_table_find(db, "model")), method,
                 kvr_table_number(db, i, kvr_table_find(db, "n")));
        return kvr_table_number(db, i, kvr_table_find(db, quantity));
    }
    return NAN;
}

static enum kvr_status add_bias_cell(struct kvr_repro *r, const struct kvr_table *db,
                                     const struct kvr_published *p, int row, const char *quantity,
                                     bool ours)
{
    const char *scheme = kvr_published_cell(p, row, "scheme");
    const char *correction = kvr_published_cell(p, row, "correction");
    char method[128], basis[192] = "";
    struct kvr_repro_row out = {
        .suite = kvr_published_cell(p, row, "model"),
        .method = method,
        .quantity = quantity,
        .published = kvr_published_cell(p, row, quantity),
        .measured = NAN,
        .tolerance = NAN,
        .basis = basis,
    };

    if (!out.published[0])
        return KVR_OK;
    snprintf(method, sizeof method, "%s %s, correction %s", scheme,
             kvr_published_cell(p, row, "precision"), correction);
    for (size_t i = 0; ours && i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(schemes[i].scheme, scheme) == 0)
            out.measured =
                measured_bias(db, schemes[i].name, correction, quantity, basis, sizeof basis);
    if (isnan(out.measured)) {
        out.verdict = KVR_VERDICT_NOT_MEASURED;
        out.reason = !ours ? "kvreel does not include the trained networks that compute this metric"
                     : strcmp(scheme, "QVG") == 0 ? "kvreel does not have the method QVG"
                     : r->db_path                 ? "no finished cell of this method and correction"
                                                  : "no database given; add --db FILE";
    } else {
        out.verdict = KVR_VERDICT_NOT_COMPARABLE;
        out.reason = "the paper uses another model and other prompts, so compare only the effects "
                     "of corrections, not the metrics";
    }
    return kvr_repro_add(r, &out);
}

/* Adds the published and the measured gain in PSNR or SSIM (quantity) from the correction. The
 * paper uses another model than kvreel, so only the signs of the gains are compared. */
static enum kvr_status add_bias_gain(struct kvr_repro *r, const struct kvr_table *db,
                                     const struct kvr_published *p, int off, const char *quantity)
{
    const char *scheme = kvr_published_cell(p, off, "scheme");
    const char *of = quantity + strlen("gain_");
    double a, b, rounding, on, without;
    char method[128], basis[192] = "", published[32];
    struct kvr_repro_row out = {
        .suite = kvr_published_cell(p, off, "model"),
        .method = method,
        .quantity = quantity,
        .published = published,
        .measured = NAN,
        .tolerance = NAN,
        .basis = basis,
    };

    if (!kvr_published_number(kvr_published_cell(p, off, of), &a, &rounding) ||
        !kvr_published_number(kvr_published_cell(p, off + 1, of), &b, &rounding))
        return KVR_OK;
    snprintf(published, sizeof published, "%.3f", b - a);
    snprintf(method, sizeof method, "%s INT2, taylor - off", scheme);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strcmp(schemes[i].scheme, scheme) != 0)
            continue;
        without = measured_bias(db, schemes[i].name, "off", of, basis, sizeof basis);
        on = measured_bias(db, schemes[i].name, "taylor", of, basis, sizeof basis);
        out.measured = on - without;
    }
    out.verdict = isnan(out.measured) ? KVR_VERDICT_NOT_MEASURED : KVR_VERDICT_NOT_COMPARABLE;
    if (isnan(out.measured))
        out.reason = strcmp(scheme, "QVG") == 0 ? "kvreel does not have the method QVG"
                     : r->db_path
                         ? "no finished cells of this method with and without the correction"
                         : "no database given; add --db FILE";
    else
        out.reason =
            (out.measured > 0) == (b > a)
                ? "another model than the paper's; the correction's effect has the published sign"
                : "another model than the paper's; the correction's effect does not have the "
                  "published sign";
    return kvr_repro_add(r, &out);
}

enum kvr_status kvr_reproduce_jensen(struct kvr_repro *r)
{
    struct kvr_published p;
    struct kvr_table *db = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_published_read(&p, "jensen_bias_table2"));
    st = r->db_path ? kvr_table_query(&db, r->db_path, kvr_statement_reproduce_bias, NULL) : KVR_OK;
    for (int i = 0; st == KVR_OK && i < p.n_rows; i++) {
        st = add_bias_cell(r, db, &p, i, "psnr_db", true);
        if (st == KVR_OK)
            st = add_bias_cell(r, db, &p, i, "ssim", true);
        if (st == KVR_OK)
            st = add_bias_cell(r, db, &p, i, "lpips", false);
        if (st == KVR_OK)
            st = add_bias_cell(r, db, &p, i, "vbench_total", false);
        /* In the published table, the row without the correction precedes the row with the
         * correction. */
        if (st == KVR_OK && i + 1 < p.n_rows &&
            strcmp(kvr_published_cell(&p, i + 1, "correction"), "taylor") == 0) {
            st = add_bias_gain(r, db, &p, i, "gain_psnr_db");
            if (st == KVR_OK)
                st = add_bias_gain(r, db, &p, i, "gain_ssim");
        }
    }
    kvr_table_close(&db);
    kvr_published_free(&p);
    return st;
}

/* ------------------------------------------------------------- PaFu-KV's table of cache sizes */

KVR_STATEMENT(reproduce_window);
KVR_STATEMENT(reproduce_pafu);

/* Adds the number of cached tokens, computed for whole latent frames of Wan. It is the only column
 * that can be checked by arithmetic. */
static enum kvr_status add_size(struct kvr_repro *r, const struct kvr_published *p, int row)
{
    const char *printed = kvr_published_cell(p, row, "cache_tokens");
    int frames = atoi(printed) / kvr_wan_1_3b.tokens_per_frame;
    struct kvr_prediction pred;
    struct kvr_scheme *scheme;
    char method[64], reason[128];
    enum kvr_status st;
    struct kvr_repro_row out = {
        .suite = "pafu",
        .method = method,
        .quantity = "cache_tokens",
        .published = printed,
        .tolerance = 0.0,
        .basis = "computed for wan-1.3b",
        .reason = reason,
    };

    KVR_TRY(kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0));
    st = kvr_predict(scheme, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = frames },
                     &pred);
    kvr_scheme_close(&scheme);
    KVR_TRY(st);
    snprintf(method, sizeof method, "%d latent frames", frames);
    snprintf(reason, sizeof reason, "%.4f GiB of K and V in BF16",
             (double)pred.bf16 / 1073741824.0);
    out.measured = (double)pred.tokens;
    out.verdict = pred.tokens == atoi(printed) ? KVR_VERDICT_EXACT : KVR_VERDICT_OUT;
    return kvr_repro_add(r, &out);
}

static enum kvr_status add_size_quality(struct kvr_repro *r, const struct kvr_published *p, int row)
{
    char method[64];
    struct kvr_repro_row out = {
        .suite = "pafu",
        .method = method,
        .measured = NAN,
        .tolerance = NAN,
        .basis = "",
        .verdict = KVR_VERDICT_NOT_MEASURED,
        .reason = "this metric needs VBench's trained networks, which kvreel does not include",
    };

    snprintf(method, sizeof method, "%d latent frames",
             atoi(kvr_published_cell(p, row, "cache_tokens")) / kvr_wan_1_3b.tokens_per_frame);
    for (int c = 1; c < p->n_columns; c++) {
        out.quantity = p->column[c];
        out.published = kvr_published_cell(p, row, p->column[c]);
        KVR_TRY(kvr_repro_add(r, &out));
    }
    return KVR_OK;
}

/* Adds rows for kvreel's BF16 rollouts with a rolling window: the mean SSIM by model and window
 * length. */
static enum kvr_status add_windows(struct kvr_repro *r, const struct kvr_table *db)
{
    for (int i = 0; i < db->n_rows; i++) {
        char method[64], basis[160];
        struct kvr_repro_row out = {
            .suite = "kvreel",
            .method = method,
            .quantity = "ssim",
            .published = "",
            .measured = kvr_table_number(db, i, kvr_table_find(db, "ssim")),
            .tolerance = NAN,
            .basis = basis,
            .verdict = KVR_VERDICT_NOT_PUBLISHED,
            .reason = "SSIM against the BF16 rollout with the same attention window",
        };

        snprintf(method, sizeof method, "%.0f latent frames",
                 kvr_table_number(db, i, kvr_table_find(db, "window")));
        snprintf(basis, sizeof basis, "%s, n = %.0f",
                 kvr_table_text(db, i, kvr_table_find(db, "model")),
                 kvr_table_number(db, i, kvr_table_find(db, "n")));
        KVR_TRY(kvr_repro_add(r, &out));
    }
    return KVR_OK;
}

/* Adds rows for kvreel's methods that evict tokens: SSIM, and the metrics closest to the published
 * motion smoothness, imaging quality and quality drift. */
static enum kvr_status add_kept(struct kvr_repro *r, const struct kvr_table *db)
{
    static const char *const quantities[] = { "ssim", "linear_smoothness", "sharpness",
                                              "ssim.drift" };

    for (int i = 0; i < db->n_rows; i++) {
        const bool sink = kvr_table_number(db, i, kvr_table_find(db, "sink")) > 0;
        char method[96], basis[160], reason[128];

        snprintf(method, sizeof method, "%s, %s%s",
                 kvr_table_text(db, i, kvr_table_find(db, "name")),
                 kvr_table_text(db, i, kvr_table_find(db, "budget")), sink ? "" : ", no sink");
        snprintf(basis, sizeof basis, "%s, %.0f frames, n = %.0f",
                 kvr_table_text(db, i, kvr_table_find(db, "model")),
                 kvr_table_number(db, i, kvr_table_find(db, "frames")),
                 kvr_table_number(db, i, kvr_table_find(db, "n")));
        snprintf(reason, sizeof reason,
                 "the paper uses another model and metric; size of kvreel's resident cache: %.0f B",
                 kvr_table_number(db, i, kvr_table_find(db, "resident_bytes")));
        for (size_t j = 0; j < sizeof quantities / sizeof *quantities; j++) {
            const struct kvr_repro_row out = {
                .suite = "kvreel",
                .method = method,
                .quantity = quantities[j],
                .published = "",
                .measured = kvr_table_number(db, i, kvr_table_find(db, quantities[j])),
                .tolerance = NAN,
                .basis = basis,
                .verdict = KVR_VERDICT_NOT_PUBLISHED,
                .reason = reason,
            };

            if (!isnan(out.measured))
                KVR_TRY(kvr_repro_add(r, &out));
        }
    }
    return KVR_OK;
}

static enum kvr_status add_speeds(struct kvr_repro *r)
{
    struct kvr_published p;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_published_read(&p, "throughput_claims"));
    for (int i = 0; st == KVR_OK && i < p.n_rows; i++) {
        char reason[160];
        struct kvr_repro_row out = {
            .suite = kvr_published_cell(&p, i, "resolution"),
            .method = kvr_published_cell(&p, i, "system"),
            .quantity = "frames_per_s",
            .published = kvr_published_cell(&p, i, "fps"),
            .measured = NAN,
            .tolerance = NAN,
            .basis = "",
            .verdict = KVR_VERDICT_NOT_MEASURED,
            .reason = reason,
        };

        snprintf(reason, sizeof reason,
                 "the paper publishes this speed for another GPU (%s) and another model",
                 kvr_published_cell(&p, i, "gpu"));
        st = kvr_repro_add(r, &out);
    }
    kvr_published_free(&p);
    return st;
}

enum kvr_status kvr_reproduce_pafu(struct kvr_repro *r)
{
    struct kvr_published p;
    struct kvr_table *db = NULL, *kept = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_published_read(&p, "pafu_kv_table3_cache_size"));
    st = r->db_path ? kvr_table_query(&db, r->db_path, kvr_statement_reproduce_window, NULL)
                    : KVR_OK;
    for (int i = 0; st == KVR_OK && i < p.n_rows; i++) {
        st = add_size(r, &p, i);
        if (st == KVR_OK)
            st = add_size_quality(r, &p, i);
    }
    if (st == KVR_OK && db)
        st = add_windows(r, db);
    if (st == KVR_OK && r->db_path)
        st = kvr_table_query(&kept, r->db_path, kvr_statement_reproduce_pafu, NULL);
    if (st == KVR_OK && kept)
        st = add_kept(r, kept);
    if (st == KVR_OK)
        st = add_speeds(r);
    kvr_table_close(&db);
    kvr_table_close(&kept);
    kvr_published_free(&p);
    return st;
}
