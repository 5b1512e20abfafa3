/* tables.c - defines the tables of `kvreel report` in an array with one element per table. */
#include "harness/report/ratios.h"
#include "harness/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/core/memtext.h"
#include "harness/core/opts.h"
#include "harness/report/table/chaos.h"
#include "harness/report/claims/claims.h"
#include "harness/report/cost.h"
#include "harness/report/intervals.h"
#include "harness/report/prefill.h"
#include "harness/report/probe_columns.h"
#include "harness/report/scaled.h"
#include "harness/report/stat_tables.h"
#include "harness/report/claims/variance.h"
#include "harness/store/statement.h"

KVR_STATEMENT(beside);
KVR_STATEMENT(table_summary);
KVR_STATEMENT(table_study);
KVR_STATEMENT(table_bias);
KVR_STATEMENT(table_cache_size);
KVR_STATEMENT(table_options);
KVR_STATEMENT(table_suites);
KVR_STATEMENT(table_truth);
KVR_STATEMENT(table_coverage);
KVR_STATEMENT(table_replay);
KVR_STATEMENT(table_failures);
KVR_STATEMENT(table_probes);

#define MIB (1.0 / (1024.0 * 1024.0))

/* An SQL statement's columns NAME_lo and NAME_hi are the ends of an interval. They follow column
 * NAME and are formatted like NAME. */
static const struct kvr_column columns[] = {
    { .name = "bits", .better = -1, .digits = 2 },
    { .name = "varying_bits", .head = "by data", .unit = "(mean)", .digits = 2 },
    { .name = "max_varying_bits", .head = "by data", .unit = "(most)", .digits = 2 },
    { .name = "compression", .better = +1, .unit = "(x)", .digits = 2 },
    { .name = "resident_compression",
      .better = +1,
      .head = "resident",
      .unit = "(x)",
      .digits = 2 },
    { .name = "psnr_db", .better = +1, .head = "PSNR", .unit = "(dB)", .digits = 2 },
    { .name = "ssim", .better = +1, .head = "SSIM", .digits = 4 },
    { .name = "psnr_floor", .head = "floor", .unit = "(dB)", .digits = 1 },
    { .name = "psnr_jitter", .head = "jitter", .unit = "(dB)", .digits = 2 },
    { .name = "resident_bytes",
      .better = -1,
      .head = "KV",
      .unit = "(MiB)",
      .scale = MIB,
      .digits = 2 },
    { .name = "peak_bytes",
      .better = -1,
      .head = "peak",
      .unit = "(MiB)",
      .scale = MIB,
      .digits = 1 },
    { .name = "runtime_s", .better = -1, .head = "runtime", .unit = "(s)", .digits = 2 },
    { .name = "runtime_seen_s", .head = "uncontrolled runtime", .unit = "(s)", .digits = 2 },
    { .name = "time_codes", .head = "why uncontrolled" },
    { .name = "fps_transformer",
      .better = +1,
      .head = "transformer alone",
      .unit = "(frames/s)",
      .digits = 2 },
    { .name = "fps_vae", .better = +1, .head = "with the VAE", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_taehv", .better = +1, .head = "with TAEHV", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_transformer_seen",
      .head = "not controlled: transformer alone",
      .unit = "(frames/s)",
      .digits = 2 },
    { .name = "fps_vae_seen", .head = "with the VAE", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_taehv_seen", .head = "with TAEHV", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_missing", .head = "why no frames/s" },
    { .name = "runtime_ratio", .better = -1, .head = "to BF16", .unit = "(x)", .digits = 3 },
    { .name = "ratio_lo", .head = "from", .unit = "(x)", .digits = 3 },
    { .name = "ratio_hi", .head = "to", .unit = "(x)", .digits = 3 },
    { .name = "ratio_codes", .head = "why no ratio" },
    { .name = "psnr_truth", .better = +1, .head = "truth PSNR", .unit = "(dB)", .digits = 2 },
    { .name = "lost_db", .better = -1, .head = "lost", .unit = "(dB)", .digits = 2 },
    { .name = "ssim_truth", .better = +1, .head = "truth SSIM", .digits = 4 },
    { .name = "truth_drift_db", .head = "truth drift", .unit = "(dB)", .digits = 2 },
    { .name = "lpips", .better = -1, .head = "LPIPS", .digits = 4 },
    { .name = "drift", .head = "SSIM drift", .digits = 4 },
    { .name = "smoothness", .digits = 4 },
    { .name = "sharpness", .digits = 2 },
    { .name = "pearson", .digits = 4 },
    { .name = "n", .head = "n ok" },
    { .name = "n_attempted", .head = "attempted" },
    { .name = "n_ok", .head = "ok" },
    { .name = "n_unsupported", .head = "unsupported" },
    { .name = "n_excluded", .head = "excluded" },
    { .name = "n_planned", .head = "planned" },
    { .name = "n_open", .head = "open" },
    { .name = "n_failed", .head = "failed" },
    { .name = NULL },
};

/* SQL condition that selects the probe's averages per layer and head. Only per layer exist
 * `recodes` (rewrites of a token's codes) and `value_changes` (changes of a token's decoded
 * value). */
#define HEADS                                                                                      \
    "p.layer IS NOT NULL AND (p.head IS NOT NULL OR p.name IN ('recodes', 'value_changes')) "      \
    "AND p.step IS NULL AND p.chunk IS NULL AND p.age IS NULL"

/* Columns of the probe tables: errors of attention weights, attention mass by kind of token,
 * agreement of the keys with the highest weights, and relative errors of attention outputs, K and
 * V. */
static const struct kvr_column probe_columns[] = {
    { .name = "delta_a", .head = "dA", .digits = 4 },
    { .name = "delta_a_median", .head = "median", .digits = 4 },
    { .name = "delta_a_p95", .head = "p95", .digits = 4 },
    { .name = "mass_bf16", .head = "A bf16", .digits = 3 },
    { .name = "keys_bf16", .head = "keys", .digits = 0 },
    { .name = "jsd", .head = "JSD", .digits = 4 },
    { .name = "attn_out_rel", .head = "output", .unit = "(rel.)", .digits = 3 },
    { .name = "attn_out_rel_k", .head = "K alone", .unit = "(rel.)", .digits = 3 },
    { .name = "attn_out_rel_v", .head = "V alone", .unit = "(rel.)", .digits = 3 },
    { .name = "top1_agreement", .head = "top-1", .digits = 3 },
    { .name = "topk_recall", .head = "top-32", .digits = 3 },
    { .name = "mass_on_zero", .head = "on zeros", .digits = 3 },
    { .name = "mass_on_summary", .head = "on means", .digits = 3 },
    { .name = "mass_lost", .head = "lost", .digits = 3 },
    { .name = "k_rel_error", .head = "K", .unit = "(rel.)", .digits = 3 },
    { .name = "v_rel_error", .head = "V", .unit = "(rel.)", .digits = 3 },
    { .name = "recodes", .digits = 1 },
    { .name = "value_changes", .head = "changes", .digits = 1 },
    { .name = NULL },
};

/* Columns of the table of replayed traces. The times are totals of one replay of the whole trace,
 * in seconds. */
static const struct kvr_column replay_columns[] = {
    { .name = "compression", .better = +1, .unit = "(x)", .digits = 2 },
    { .name = "resident_bytes", .head = "KV", .unit = "(MiB)", .digits = 2, .scale = MIB },
    { .name = "attn_out_rel", .better = -1, .head = "output", .unit = "(rel.)", .digits = 4 },
    { .name = "attn_out_cos", .head = "cosine", .digits = 5 },
    { .name = "recorded_rel", .head = "recorded", .unit = "(rel.)", .digits = 4 },
    { .name = "delta_a", .head = "dA", .digits = 4 },
    { .name = "jsd", .head = "JSD", .digits = 4 },
    { .name = "topk_recall", .head = "top-32", .digits = 3 },
    { .name = "encode_s", .head = "encode", .unit = "(s)", .digits = 3 },
    { .name = "decode_s", .head = "decode", .unit = "(s)", .digits = 3 },
    { .name = "attend_s", .head = "attend", .unit = "(s)", .digits = 3 },
    { .name = NULL },
};

/* Columns that kvr_table_fold() moves to the table's note if all rows have the same value. A
 * setting without a column expands to NULL, which ends the list; settings.def lists such settings
 * last. */
static const char *const settings[] = { "model", "suite", "machine", "settings", "given", "warning",
#define SETTING(name, type, def, lo, hi, words, key, when, column, ...) column,
#include "harness/store/settings.def"
#undef SETTING
                                        NULL };

/* Columns that are dropped if no row has a value, such as the spread of BF16 reruns, data-dependent
 * bytes, frames per second and GPU memory. */
static const char *const drawn[] = { "psnr_floor",
                                     "psnr_jitter",
                                     "ssim_floor",
                                     "ssim_jitter",
                                     "varying_bits",
                                     "max_varying_bits",
                                     "fps_transformer",
                                     "fps_vae",
                                     "fps_taehv",
                                     "fps_transformer_seen",
                                     "fps_vae_seen",
                                     "fps_taehv_seen",
                                     "fps_missing",
                                     "device_bytes",
                                     "nvml_bytes",
                                     "context_bytes",
                                     "beyond_bytes",
                                     "memory_says",
                                     NULL };

static const char *const no_settings[] = { NULL };

const struct kvr_report kvr_reports[] = {
    /* The BF16 reference is the first row. The other methods follow in order of increasing
     * compression. */
    { .name = "summary",
      .chaos = true,
      .title = "Cost, and fidelity to the BF16 rollout: means over n videos (runtime: median), "
               "with 95 % intervals",
      .sql = kvr_statement_table_summary,
      .intervals = true,
      .columns = columns,
      .fold = settings },
    { .name = "intervals",
      .chaos = true,
      .title = "Fidelity and time with 95 % intervals; methods that share no letter differ "
               "significantly in SSIM",
      .make = kvr_report_intervals,
      .fold = settings },
    { .name = "equal_bytes",
      .title = "Fidelity per budget in bits per element, with 95 % intervals; methods of the same "
               "budget that share no letter differ significantly in SSIM",
      .make = kvr_report_equal_bytes,
      .fold = settings },
    { .name = "sensitivity",
      .title =
          "Sensitivity of SSIM verdicts to seeds, prompts, teacher forcing and method variants",
      .make = kvr_report_sensitivity,
      .empty = "no two methods differ significantly in SSIM (the test needs at least six prompts "
               "that both methods ran)",
      .fold = settings },
    { .name = "claims",
      .title = "Papers' claims for which this database has cells",
      .make = kvr_report_claims,
      .empty = "no cell belongs to any of the papers' claims; `kvreel settle all` runs their cells",
      .fold = no_settings },
    { .name = "variance",
      .title = "Fraction of a claim's prompts that each variance-reduction technique saves",
      .make = kvr_report_variance,
      .empty = "no claim has finished cells of at least 12 prompts, this table's minimum; `kvreel "
               "settle all` runs more prompts",
      .fold = no_settings },
    { .name = "cost",
      .title = "Measured cost (peak memory by allocation tag, compression, and time by phase), "
               "with predicted and published values where these exist",
      .make = kvr_report_cost,
      .fold = settings },
    { .name = "scaled",
      .title = "Time and peak memory of whole models, extrapolated from models with fewer layers",
      .make = kvr_report_scaled,
      .empty = "no model was measured with fewer layers (setting model_layers)",
      .fold = no_settings },
    { .name = "table2",
      .title = "Compression, peak memory, time and fidelity over all suites (columns as in Table 2 "
               "of the 33-method study), with 95 % intervals",
      .sql = kvr_statement_table_study,
      .with = KVR_WITH("by", ""),
      .columns = columns,
      .fold = settings },
    { .name = "appendix_c",
      .title = "Compression, peak memory, time and fidelity by suite (tables as in Appendix C of "
               "the 33-method study), with 95 % intervals",
      .sql = kvr_statement_table_study,
      .with = KVR_WITH("by", "w.suite, "),
      .columns = columns,
      .fold = settings },
    { .name = "bias",
      .title = "Fidelity of methods with and without a correction of the attention bias: "
               "means with 95 % intervals",
      .sql = kvr_statement_table_bias,
      .columns = columns,
      .fold = settings },
    { .name = "cache_size",
      .title = "Fidelity by number of cached tokens per layer: means with 95 % intervals",
      .sql = kvr_statement_table_cache_size,
      .columns = columns,
      .fold = settings },
    { .name = "options",
      .title = "Parts of each method: codecs, tiers, retention, corrections",
      .sql = kvr_statement_table_options,
      .columns = columns,
      .fold = settings },
    { .name = "suites",
      .title = "Agreement of prompt suites: correlation, over methods, of their mean values on two "
               "suites",
      .sql = kvr_statement_table_suites,
      .columns = columns,
      .fold = settings },
    { .name = "truth",
      .title = "Frames compared with rendered ground truth: means with 95 % intervals; `lost`: "
               "BF16's PSNR minus the method's PSNR, both against the truth",
      .sql = kvr_statement_table_truth,
      .columns = columns,
      .fold = settings },
    { .name = "prefill",
      .title = "Loss of a language model with a quantized prefix, by chunk and prefix length",
      .make = kvr_report_prefill,
      .fold = settings },
    { .name = "replay",
      .title =
          "Error of attention outputs replayed from traces: means over traces with 95 % intervals",
      .sql = kvr_statement_table_replay,
      .columns = replay_columns,
      .fold = settings },
    { .name = "coverage",
      .title = "Coverage: planned, finished and failed cells by method",
      .sql = kvr_statement_table_coverage,
      .columns = columns,
      .fold = settings },
    { .name = "failures",
      .title = "Cells (one method, prompt, seed and settings) without a result",
      .sql = kvr_statement_table_failures,
      .columns = columns,
      .empty = "no cell failed",
      .fold = settings },
    { .name = "probes",
      .title = "Attention compared with attention over a BF16 cache of the same tokens: means over "
               "all heads, with 95 % intervals over prompts",
      .sql = kvr_statement_table_probes,
      .with = KVR_WITH("axis", "", "p.axis", "", "source", "probe_summary", "spread", "median, p95",
                       "rows", HEADS, "quantities", KVR_PROBES),
      .columns = probe_columns,
      .fold = settings },
    { .name = "probes_by_layer",
      .title = "Attention compared with attention over a BF16 cache, by layer: means over the "
               "layer's heads, with 95 % intervals over "
               "prompts",
      .sql = kvr_statement_table_probes,
      .with = KVR_WITH("axis", ", layer", "p.axis", ", p.layer", "source", "probe_by_layer",
                       "spread", "median, p95", "rows", HEADS, "quantities", KVR_PROBES_BY_LAYER),
      .columns = probe_columns,
      .fold = settings },
    { .name = "probes_by_age",
      .title = "Attention compared with attention over a BF16 cache, by age of the cached tokens "
               "in chunks, with 95 % intervals over "
               "prompts",
      .sql = kvr_statement_table_probes,
      .with = KVR_WITH("axis", ", age", "p.axis", ", p.age", "source", "probe_by_age", "spread",
                       "NULL AS median, NULL AS p95", "rows",
                       "p.layer IS NULL AND p.age IS NOT NULL", "quantities", KVR_PROBES_BY_AGE),
      .columns = probe_columns,
      .fold = settings },
    { .name = NULL },
};

static const struct kvr_report *find(const char *name)
{
    for (int i = 0; kvr_reports[i].name; i++)
        if (strcmp(name, kvr_reports[i].name) == 0)
            return &kvr_reports[i];
    return NULL;
}

static enum kvr_status fail_unknown(const char *name)
{
    const char *names[sizeof kvr_reports / sizeof kvr_reports[0]];
    const char *near;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        names[i] = kvr_reports[i].name;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_ENOTFOUND,
                    "report: unknown table '%s'%s%s%s; `kvreel report --list` lists the tables",
                    name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* Sets *out to a list of the hosts on which the database's results were measured, each with its CPU
 * model. The caller frees *out. */
static enum kvr_status list_hosts(char **out, const char *db_path)
{
    struct kvr_table *t;
    enum kvr_status st = KVR_OK;

    *out = NULL;
    KVR_TRY(
        kvr_table_query(&t, db_path,
                        "SELECT group_concat(host, '; ') FROM (SELECT DISTINCT host || ' (' ||\n"
                        "  cpu_model || ')' AS host FROM session\n"
                        "  WHERE id IN (SELECT session FROM cell) ORDER BY host)",
                        NULL));
    *out = strdup(t->n_rows == 1 && kvr_table_text(t, 0, 0)[0] ? kvr_table_text(t, 0, 0)
                                                               : "unknown host");
    if (!*out)
        st = kvr_fail(KVR_ENOMEM, "report: out of memory");
    kvr_table_close(&t);
    return st;
}

/* Adds a note that names the hosts. A host's CPU is omitted if an earlier note names it as part of
 * the machine, whose description ends with '#' and a hash of the machine's properties. */
static enum kvr_status note_hosts(struct kvr_table *t, const char *db_path)
{
    const char *known = t->note ? t->note : "";
    char text[1024] = "", host[512], note[1200];
    struct kvr_table *n;

    KVR_TRY(kvr_table_query(&n, db_path,
                            "SELECT DISTINCT host, cpu_model FROM session\n"
                            "WHERE id IN (SELECT session FROM cell) ORDER BY host, cpu_model",
                            NULL));
    for (int i = 0; i < n->n_rows; i++) {
        const char *cpu = kvr_table_text(n, i, 1);

        if (strstr(known, cpu))
            snprintf(host, sizeof host, "%s", kvr_table_text(n, i, 0));
        else
            snprintf(host, sizeof host, "%s (%s)", kvr_table_text(n, i, 0), cpu);
        kvr_join(text, sizeof text, host);
    }
    kvr_table_close(&n);
    snprintf(note, sizeof note, "host %s%s", text[0] ? text : "unknown",
             strstr(known, " CPUs") && strchr(known, '#')
                 ? "; # precedes a hash of the machine's properties"
                 : "");
    return kvr_table_note(t, note);
}

/* Adds notes about sweeps that were limited, filtered or interrupted, or that had failures. Without
 * a note, their tables would look complete. */
enum kvr_status kvr_report_note_plan(struct kvr_table *t, const char *db_path)
{
    struct kvr_table *n;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_table_query(&n, db_path,
                            "SELECT 'NOT ALL: ' || name || ': ' || note FROM sweeps WHERE note <> "
                            "'' ORDER BY started",
                            NULL));
    for (int i = 0; i < n->n_rows && st == KVR_OK; i++)
        st = kvr_table_note(t, kvr_table_text(n, i, 0));
    kvr_table_close(&n);
    return st;
}

enum kvr_status kvr_report_footer(char **out, const char *db_path)
{
    char *hosts = NULL;
    struct kvr_table *none;
    enum kvr_status st;
    size_t n = 0;

    *out = NULL;
    KVR_TRY(kvr_table_open(&none, 0, NULL));
    st = list_hosts(&hosts, db_path);
    if (st == KVR_OK)
        st = kvr_report_note_plan(none, db_path);
    if (st == KVR_OK) {
        FILE *to = kvr_text_open(out, &n);

        if (to)
            fprintf(to, "%s%s", hosts, none->note ? "; " : "");
        for (const char *s = none->note; to && s && *s; s++)
            *s == '\n' ? fputs("; ", to) : fputc(*s, to);
        if (!kvr_text_close(to, out))
            st = kvr_fail(KVR_ENOMEM, "report: out of memory");
    }
    free(hosts);
    kvr_table_close(&none);
    return st;
}

/* Adds notes with the number of cells whose times are untrusted, and the number of cells without a
 * result, by reason. Means do not show these numbers. */
static enum kvr_status note_verdicts(struct kvr_table *t, const char *db_path)
{
    static const char *const says[] = {
        "NOISY (time disturbed by load, parallel jobs or clock changes): left out of mean runtimes",
        "failed: left out of all means (report -t failures lists them)",
        "excluded: left out of all means (SQL view holes lists them)",
        "unsupported: left out of all means (SQL view holes lists them)"
    };
    struct kvr_table *n;
    char text[160];
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_table_query(&n, db_path,
                            "SELECT sum(verdict = 'NOISY'), sum(verdict = 'INVALID' AND outcome "
                            "NOT IN ('EXCLUDED', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED')),\n"
                            "  sum(outcome = 'EXCLUDED'), sum(outcome = 'UNSUPPORTED')\n"
                            "FROM cell WHERE run_kind = 'bench'",
                            NULL));
    for (int i = 0; st == KVR_OK && i < 4; i++) {
        const double cells = kvr_table_number(n, 0, i); /* NaN: the database has no cells */

        snprintf(text, sizeof text, "%.0f cell%s %s", cells, cells > 1 ? "s" : "", says[i]);
        if (cells > 0)
            st = kvr_table_note(t, text);
    }
    kvr_table_close(&n);
    return st;
}

/* Adds a note that names the recommended baselines (harness/plan/baselines.h) that the database
 * lacks. */
static enum kvr_status note_baselines(struct kvr_table *t, const char *db_path)
{
    struct kvr_table *n;
    char text[256];
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_table_query(&n, db_path, kvr_statement_beside, NULL));
    if (n->n_rows) {
        snprintf(text, sizeof text,
                 "missing baselines: %s; `kvreel run SWEEP --set baselines=all` adds them",
                 kvr_table_text(n, 0, 0));
        st = kvr_table_note(t, text);
    }
    kvr_table_close(&n);
    return st;
}

/* Drops the columns of interval ends that have no values, for example because there is only one
 * prompt. */
static void drop_empty_ends(struct kvr_table *t)
{
    for (int c = t->n_columns - 1; c >= 0; c--) {
        const char *const name[] = { t->column[c].name, NULL };
        const size_t n = strlen(name[0]);

        if (n > 3 && (strcmp(name[0] + n - 3, "_lo") == 0 || strcmp(name[0] + n - 3, "_hi") == 0))
            kvr_table_drop_empty(t, name);
    }
}

static enum kvr_status finish(struct kvr_table *t, const struct kvr_report *r, const char *db_path)
{
    enum kvr_status st;

    t->title = strdup(r->title);
    if (!t->title)
        return kvr_fail(KVR_ENOMEM, "report: out of memory");
    KVR_TRY(kvr_table_fold(t, r->fold));
    kvr_table_drop_empty(t, drawn);
    if (r->sql)
        drop_empty_ends(t);
    st = note_hosts(t, db_path);
    if (st == KVR_OK)
        st = kvr_report_note_plan(t, db_path);
    if (st == KVR_OK && (strcmp(r->name, "summary") == 0 || strcmp(r->name, "cost") == 0))
        st = note_verdicts(t, db_path);
    if (st == KVR_OK && r->chaos)
        st = kvr_chaos_note(t, db_path);
    if (st == KVR_OK && r->chaos)
        st = note_baselines(t, db_path);
    return st;
}

enum kvr_status kvr_report_table(struct kvr_table **out, const char *db_path, const char *name)
{
    const struct kvr_report *r = find(name);
    enum kvr_status st = KVR_OK;

    *out = NULL;
    if (!r)
        return fail_unknown(name);
    KVR_TRY(r->make ? r->make(out, db_path)
                    : kvr_table_query_with(out, db_path, r->sql, r->with, r->columns));
    if (r->intervals)
        st = kvr_report_add_ratios(*out, db_path);
    if (r->intervals && st == KVR_OK)
        st = kvr_report_add_intervals(*out, db_path);
    if (st == KVR_OK)
        st = finish(*out, r, db_path);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
