/* cost.c - see cost.h. */
#include "harness/report/cost.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/geometry.h"
#include "harness/plan/parts.h"
#include "harness/report/cost_columns.h"
#include "harness/report/table/published.h"
#include "harness/report/ratios.h"
#include "harness/report/table/values.h"
#include "harness/store/setting.h"
#include "harness/store/statement.h"
#include "methods/method.h"

#define MIB (1.0 / (1024.0 * 1024.0))

KVR_STATEMENT(table_cost);
enum {
    METHOD,
    NAME,
    BASELINE,
    COMPRESSION,
    PEAK,
    POOL,
    MEMORY_SAYS = POOL + 4,
    KV,
    META,
    SCRATCH,
    WEIGHTS,
    ACT,
    IO,
    RUNTIME,
    SEEN,
    CODES,
    ENCODE,
    DECODE,
    ATTEND,
    LINEAR,
    CROSS,
    OTHER,
    NOISE,
    FPS,
    FPS_MISSING = FPS + 6,
    SETTINGS,
    SPEC,
    SESSION_BASELINE,
    MODEL
};

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "compression", .unit = "(x)", .digits = 2 },
    { .name = "published_compression", .head = "published", .unit = "(x)", .digits = 2 },
    { .name = "peak_bytes", .head = "peak", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "device_bytes", .head = "pool", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "nvml_bytes", .head = "NVML", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "context_bytes", .head = "context", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "beyond_bytes",
      .head = "outside pool and context",
      .unit = "(MiB)",
      .scale = MIB,
      .digits = 1 },
    { .name = "memory_says", .head = "pool and NVML", .digits = -1 },
    { .name = "kv_bytes", .head = "KV", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "meta_bytes", .head = "META", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "scratch_bytes", .head = "SCRATCH", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "weights_bytes", .head = "WEIGHTS", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "act_bytes", .head = "ACT", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "io_bytes", .head = "IO", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "predicted_bytes", .head = "predicted", .unit = "(MiB)", .scale = MIB, .digits = 1 },
    { .name = "off_bytes", .head = "off by", .unit = "(B)", .digits = 0 },
    COST_PUBLISHED_PEAK,
    COST_RUNTIME,
    { .name = "runtime_ratio", .head = "to BF16", .unit = "(x)", .digits = 2 },
    { .name = "ratio_lo", .head = "from", .unit = "(x)", .digits = 3 },
    { .name = "ratio_hi", .head = "to", .unit = "(x)", .digits = 3 },
    { .name = "ratio_codes", .head = "why no ratio", .digits = -1 },
    COST_PUBLISHED_RUNTIME,
    { .name = "encode_s", .head = "encode", .unit = "(s)", .digits = 2 },
    { .name = "decode_s", .head = "decode", .unit = "(s)", .digits = 2 },
    { .name = "attend_s", .head = "attend", .unit = "(s)", .digits = 2 },
    { .name = "linear_s", .head = "linear", .unit = "(s)", .digits = 2 },
    { .name = "cross_s", .head = "cross", .unit = "(s)", .digits = 2 },
    { .name = "other_s", .head = "other", .unit = "(s)", .digits = 2 },
    { .name = "noise_s", .head = "noise", .unit = "(s)", .digits = 2 },
    COST_FPS,
    { .name = "fps_transformer_seen",
      .head = "not controlled: transformer alone",
      .unit = "(frames/s)",
      .digits = 2 },
    { .name = "fps_vae_seen", .head = "with the VAE", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_taehv_seen", .head = "with TAEHV", .unit = "(frames/s)", .digits = 2 },
    { .name = "fps_missing", .head = "why no frames/s", .digits = -1 },
    { .name = "n", .digits = -1 },
    { .name = "settings", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

struct cost {
    struct kvr_table *t; /* one row per cell */
    struct kvr_table *ratios;
    struct kvr_published ratio, peak, runtime;
};

/* --- published --------------------------------------------------------------------------- */

/* Returns whether `label` is NAME or NAME@study. The study published only methods without
 * options. */
static bool as_published(const char *label, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(label, name, n) == 0 && (!label[n] || strcmp(label + n, "@study") == 0);
}

/* --- prediction -------------------------------------------------------------------------- */

static enum kvr_status predict_spec(const json_t *spec, struct kvr_prediction *out)
{
    const char *name = json_string_value(json_object_get(json_object_get(spec, "model"), "name"));
    struct kvr_predict_run run = { 0 };
    enum kvr_dtype compute = KVR_F32;
    struct kvr_settings set;
    struct kvr_geometry geo;
    struct kvr_scheme *scheme = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_settings_read_json(&set, spec, "cost"));
    if (set.evict)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "cost: memory of cells with `evict: true` cannot be predicted; set evict: false");
    if (!kvr_setting_in_range(KVR_SET_frames, set.frames))
        return kvr_fail(KVR_EFORMAT, "cost: the cell has %d latent frames, need 1 or more",
                        set.frames);
    run.latent_frames = set.frames;
    kvr_path_find(set.path, &run.path);
    kvr_attend_find(set.attend, &run.attend);
    kvr_device_backend(set.device, &run.backend);
    KVR_TRY(kvr_compute_parse(set.compute, &compute));
    KVR_TRY(kvr_geometry_find_part(name ? name : "", set.model_layers, &geo));
    kvr_geometry_compute(&geo, run.backend, compute);
    KVR_TRY(kvr_parts_open_scheme(&scheme, spec, "cost"));
    st = kvr_predict(scheme, &geo, &run, out);
    kvr_scheme_close(&scheme);
    return st;
}

/* Predicts the peak bytes of a cell from its spec, which is JSON text. NaN: the prediction is
 * impossible, for example because the model's folder is missing. */
static enum kvr_status predicted(const char *text_of_spec, double *bytes)
{
    json_t *spec = json_loads(text_of_spec, 0, NULL);
    struct kvr_prediction p = { 0 };
    const enum kvr_status st = spec ? predict_spec(spec, &p) : KVR_EFORMAT;

    json_decref(spec);
    *bytes = st == KVR_OK && p.weights ? (double)p.peak : NAN;
    return st == KVR_ENOMEM ? st : KVR_OK;
}

/* --- rows -------------------------------------------------------------------------------- */

static bool same(const struct kvr_table *t, int a, int b, int column)
{
    return strcmp(kvr_table_text(t, a, column), kvr_table_text(t, b, column)) == 0;
}

/* Returns the row with the median runtime among rows [from, to). If the number of rows is even, the
 * result is the faster of the two middle rows. */
static int middle(const struct kvr_table *t, int from, int to)
{
    int n = 0;

    for (int r = from; r < to; r++)
        n += isfinite(kvr_table_number(t, r, RUNTIME));
    return n ? from + (n - 1) / 2 : from;
}

/* Returns the baseline's median runtime in seconds at the settings of row `at` (NaN: the table has
 * no such baseline). If the measurement session of row `at` measured the baseline again, returns
 * the mean of these repeated measurements instead. */
static double baseline_of(const struct kvr_table *t, int at)
{
    int from = at, to;

    if (isfinite(kvr_table_number(t, at, SESSION_BASELINE)))
        return kvr_table_number(t, at, SESSION_BASELINE);
    while (from > 0 && same(t, from - 1, at, SETTINGS))
        from--;
    if (kvr_table_number(t, from, BASELINE) != 1)
        return NAN;
    for (to = from; to < t->n_rows && same(t, to, from, SETTINGS) && same(t, to, from, METHOD);)
        to++;
    return kvr_table_number(t, middle(t, from, to), RUNTIME);
}

static enum kvr_status add_row(struct kvr_table *out, const struct cost *c, int from, int to)
{
    static const char runtime[] = "runtime_s", suite[] = "moviegen";
    static const int plain[] = { KV, META, SCRATCH, WEIGHTS, ACT, IO };
    static const int phases[] = { ENCODE, DECODE, ATTEND, LINEAR, CROSS, OTHER, NOISE };
    const struct kvr_table *t = c->t;
    const int at = middle(t, from, to);
    const char *name = "";
    const double held = kvr_table_number(t, at, KV) + kvr_table_number(t, at, META) +
                        kvr_table_number(t, at, SCRATCH) + kvr_table_number(t, at, WEIGHTS);
    const int pairs =
        kvr_ratio_find(c->ratios, kvr_table_text(t, at, METHOD), kvr_table_text(t, at, SETTINGS));
    const double ratio = pairs < 0 ? NAN : kvr_table_number(c->ratios, pairs, KVR_RATIO);
    struct kvr_value v[N_COLUMNS];
    double expected;
    bool fits;
    int n = 0;

    KVR_TRY(kvr_published_fits(&fits, kvr_table_text(t, at, MODEL)));
    if (fits && as_published(kvr_table_text(t, at, METHOD), kvr_table_text(t, at, NAME)))
        name = kvr_table_text(t, at, NAME);
    KVR_TRY(predicted(kvr_table_text(t, at, SPEC), &expected));
    v[n++] = kvr_value_text(kvr_table_text(t, at, METHOD));
    v[n++] = kvr_value_number(kvr_table_number(t, at, COMPRESSION));
    v[n++] = kvr_value_number(kvr_published_value(&c->ratio, name, suite));
    for (int i = PEAK; i < MEMORY_SAYS; i++)
        v[n++] = kvr_value_number(kvr_table_number(t, at, i));
    v[n++] = kvr_value_text_or_none(kvr_table_text(t, at, MEMORY_SAYS));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        v[n++] = kvr_value_number(kvr_table_number(t, at, plain[i]));
    v[n++] = kvr_value_number(expected);
    v[n++] = kvr_value_number(held - expected);
    v[n++] = kvr_value_number(kvr_published_value(&c->peak, name, suite));
    v[n++] = kvr_value_number(kvr_table_number(t, at, RUNTIME));
    v[n++] = kvr_value_number(kvr_table_number(t, at, SEEN));
    v[n++] = kvr_value_text(kvr_table_text(t, at, CODES));
    v[n++] = kvr_value_number(
        isfinite(ratio) ? ratio : kvr_table_number(t, at, RUNTIME) / baseline_of(t, at));
    v[n++] = kvr_value_number(pairs < 0 ? NAN : kvr_table_number(c->ratios, pairs, KVR_RATIO_LO));
    v[n++] = kvr_value_number(pairs < 0 ? NAN : kvr_table_number(c->ratios, pairs, KVR_RATIO_HI));
    v[n++] = kvr_value_text(pairs < 0 ? "" : kvr_table_text(c->ratios, pairs, KVR_RATIO_CODES));
    v[n++] = kvr_value_number(kvr_published_value(&c->runtime, name, runtime));
    v[n++] = kvr_value_number(kvr_published_value(&c->runtime, name, runtime) /
                              kvr_published_value(&c->runtime, kvr_reference_method, runtime));
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        v[n++] = kvr_value_number(kvr_table_number(t, at, phases[i]));
    for (int i = FPS; i < FPS_MISSING; i++)
        v[n++] = kvr_value_number(kvr_table_number(t, at, i));
    v[n++] = kvr_value_text_or_none(kvr_table_text(t, at, FPS_MISSING));
    v[n++] = kvr_value_number(to - from);
    v[n++] = kvr_value_text(kvr_table_text(t, at, SETTINGS));
    return kvr_table_add(out, v);
}

static bool has_numbers(const struct kvr_table *t, const char *column)
{
    const int c = kvr_table_find(t, column);

    for (int r = 0; c >= 0 && r < t->n_rows; r++)
        if (isfinite(kvr_table_number(t, r, c)))
            return true;
    return false;
}

static enum kvr_status note_published(struct kvr_table *out)
{
    return kvr_table_note(
        out, "published: the 33-method study's figures for the same method (MovieGen prompts, Wan "
             "2.1 1.3B, 165 frames; with text encoder and decoder; the study does not state its "
             "GPU)");
}

static enum kvr_status fill(struct kvr_table *out, const struct cost *c)
{
    const struct kvr_table *t = c->t;

    for (int from = 0, to; from < t->n_rows; from = to) {
        for (to = from + 1; to < t->n_rows; to++)
            if (!same(t, from, to, SETTINGS) || !same(t, from, to, METHOD))
                break;
        KVR_TRY(add_row(out, c, from, to));
    }
    if (has_numbers(out, "published_compression") || has_numbers(out, "published_runtime_s"))
        KVR_TRY(note_published(out));
    KVR_TRY(kvr_table_note(out,
                           "to BF16: runtime divided by BF16's runtime; a ratio with an interval "
                           "was measured in pairs of consecutive rollouts (setting abba)"));
    return kvr_table_note(
        out, "predicted: predicted bytes of the memory tags KV, META, SCRATCH and WEIGHTS; off by: "
             "bytes of these tags, measured at the peak, minus predicted bytes");
}

enum kvr_status kvr_report_cost(struct kvr_table **out, const char *db_path)
{
    struct cost c = { 0 };
    enum kvr_status st = kvr_published_read(&c.ratio, "kvquant33_compression");

    if (st == KVR_OK)
        st = kvr_published_read(&c.peak, "kvquant33_peak_gib");
    if (st == KVR_OK)
        st = kvr_published_read(&c.runtime, "kvquant33_moviegen");
    if (st == KVR_OK)
        st = kvr_table_query(&c.t, db_path, kvr_statement_table_cost, NULL);
    if (st == KVR_OK)
        st = kvr_ratios_read(&c.ratios, db_path, KVR_RATIOS_BY_SETTINGS);
    if (st == KVR_OK)
        st = kvr_table_open(out, N_COLUMNS, columns);
    if (st == KVR_OK)
        st = fill(*out, &c);
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_table_close(&c.t);
    kvr_table_close(&c.ratios);
    kvr_published_free(&c.ratio);
    kvr_published_free(&c.peak);
    kvr_published_free(&c.runtime);
    return st;
}
