/* cmd_list.c - `kvreel list`: lists methods, metrics, models and other things by name. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/catalogue.h"
#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/core/opts.h"
#include "harness/engine/model.h"
#include "harness/plan/find.h"
#include "harness/plan/suite.h"
#include "metrics/metric.h"

struct list_opts {
    bool json, md;
};

/* Head count and head width (Wan 2.1 1.3B) for which bits per element are listed. The number of
 * bits depends on the head width for codecs with one scale per group. */
enum { LIST_HEADS = 12, LIST_HEAD_DIM = 128 };

/* Function that lists one kind of things as JSON objects; the text table shows the same objects. */
typedef enum kvr_status list_fn(json_t *out);

static enum kvr_status add(json_t *out, json_t *entry)
{
    if (!entry || json_array_append_new(out, entry))
        return kvr_fail(KVR_ENOMEM, "list: out of memory while making the list");
    return KVR_OK;
}

static void add_axis(void *ctx, const char *axis, const char *text)
{
    json_object_set_new(ctx, axis, json_string(text));
}

static enum kvr_status list_methods(json_t *out)
{
    const struct kvr_method *m;

    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++) {
        struct kvr_scheme *scheme;
        double bits;

        KVR_TRY(kvr_scheme_open(&scheme, m->name, NULL, 0));
        bits = kvr_scheme_bits(scheme, LIST_HEADS, LIST_HEAD_DIM);
        kvr_scheme_close(&scheme);
        KVR_TRY(add(out, json_pack("{s:s, s:s, s:b, s:o, s:s, s:s}", "name", m->name, "family",
                                   m->family, "study", m->study, "bits_per_element",
                                   bits >= 0 ? json_real(bits) : json_null(), "title", m->title,
                                   "paper", m->paper)));
    }
    return KVR_OK;
}

/* Adds one reading (interpretation of the paper) of a method, with `differs`, its difference from
 * the paper. */
static enum kvr_status add_reading(json_t *out, const struct kvr_method *m, const char *spec)
{
    struct kvr_scheme *p;
    const char *differs, *source;
    json_t *axes = json_object();
    double bits;
    enum kvr_status st;

    if (!axes)
        return kvr_fail(KVR_ENOMEM, "list: out of memory while adding method %s", spec);
    st = kvr_scheme_open(&p, spec, NULL, 0);
    if (st != KVR_OK) {
        json_decref(axes);
        return st;
    }
    bits = kvr_scheme_bits(p, LIST_HEADS, LIST_HEAD_DIM);
    kvr_scheme_visit_axes(p, add_axis, axes);
    differs = p->shipped ? p->shipped->differs : kvr_scheme_is_study(p) ? m->differs : NULL;
    source = p->shipped ? p->shipped->source : m->paper;
    st = add(out, json_pack("{s:s, s:s, s:s, s:o, s:s?, s:o, s:s?}", "name", m->name, "reading",
                            kvr_scheme_reading(p), "spec", spec, "bits_per_element",
                            bits >= 0 ? json_real(bits) : json_null(), "source", source, "axes",
                            axes, "differs", differs));
    kvr_scheme_close(&p);
    return st;
}

/* Lists the readings (interpretations of the paper) of every method that has more than one. */
static enum kvr_status list_readings(json_t *out)
{
    const struct kvr_method *m;
    char spec[128];

    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        for (int r = 0;
             kvr_method_spec(m, 1, spec, sizeof spec) && kvr_method_spec(m, r, spec, sizeof spec);
             r++)
            KVR_TRY(add_reading(out, m, spec));
    return KVR_OK;
}

static enum kvr_status add_metrics(json_t *out, const struct kvr_metric *const *list)
{
    for (; *list; list++) {
        const struct kvr_metric *m = *list;

        KVR_TRY(
            add(out,
                json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:b, s:b, s:s, s:s, s:s}", "name",
                          m->name, "unit", m->unit, "better", m->direction > 0 ? "higher" : "lower",
                          "lowest", m->lo, "highest", m->hi, "version", m->version,
                          "needs_reference", !m->alone && !m->truth, "needs_truth", m->truth, "per",
                          m->whole ? "video" : "frame", "source", m->source, "title", m->title)));
    }
    return KVR_OK;
}

static enum kvr_status list_metrics(json_t *out)
{
    KVR_TRY(add_metrics(out, kvr_metrics));
    return add_metrics(out, kvr_truth_metrics);
}

static enum kvr_status add_model(json_t *out, const char *name, const char *dir)
{
    struct kvr_model_config c = { 0 };
    struct kvr_model_paths p = { 0 };
    const char *weights;
    char path[1024];
    enum kvr_status st;

    snprintf(path, sizeof path, "%s/config.json", dir);
    st = kvr_model_config_read(&c, path);
    if (st == KVR_OK)
        st = kvr_model_paths(dir, &c, KVR_DECODER_VAE, &p);
    if (st == KVR_OK) {
        weights = c.random_weights ? "random" : kvr_path_exists(p.weights) ? "trained" : "missing";
        st = add(out,
                 json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s}", "name", name,
                           "layers", c.n_layers, "heads", c.n_heads, "head_dim", c.dim / c.n_heads,
                           "tokens_per_frame", c.latent_h / c.patch_h * (c.latent_w / c.patch_w),
                           "frames_per_chunk", c.frames_per_chunk, "window_frames", c.window_frames,
                           "prediction", c.prediction == KVR_PREDICT_X0 ? "x0" : "flow", "weights",
                           weights, "path", dir));
    }
    kvr_model_paths_free(&p);
    kvr_model_config_free(&c);
    return st;
}

static enum kvr_status add_suite(json_t *out, const char *name, const char *path)
{
    struct kvr_suite s = { 0 };
    enum kvr_status st = kvr_suite_read(&s, path);

    if (st == KVR_OK)
        st = add(out, json_pack("{s:s, s:i, s:i, s:I, s:s, s:s, s:s}", "name", name, "prompts",
                                s.n_prompts, "frames", s.frames, "seed", (json_int_t)s.seed,
                                "model", s.model, "title", s.title, "path", path));
    kvr_suite_free(&s);
    return st;
}

/* Lists the files that a search finds; an unreadable file is reported and skipped. */
static enum kvr_status list_found(json_t *out, const struct kvr_find *f,
                                  enum kvr_status (*one)(json_t *, const char *, const char *))
{
    char **names;
    enum kvr_status worst = KVR_OK;
    int n = 0, n_failed = 0;

    KVR_TRY(kvr_find_names(f, NULL, &names));
    for (; names[n]; n++) {
        char path[1024];
        enum kvr_status st = kvr_find_path(f, names[n], NULL, path, sizeof path);

        if (st == KVR_OK)
            st = one(out, names[n], path);
        if (st != KVR_OK) {
            kvr_cli_fail(st);
            worst = st;
            n_failed++;
        }
    }
    free(names);
    return worst == KVR_OK
               ? KVR_OK
               : kvr_fail(
                     worst,
                     "list: %d of %d %ss could not be read; the messages above give the reasons",
                     n_failed, n, f->what);
}

static enum kvr_status list_models(json_t *out)
{
    return list_found(out, &kvr_find_model, add_model);
}

static enum kvr_status list_suites(json_t *out)
{
    return list_found(out, &kvr_find_suite, add_suite);
}

/* Rounds bits to the two digits of the documentation. */
static void print_bits(json_t *row)
{
    const json_t *bits = json_object_get(row, "bits_per_element");

    if (json_is_real(bits))
        json_object_set_new(row, "bits_per_element",
                            json_real(round(json_real_value(bits) * 100) / 100));
}

/* Prints whole bounds without an exponent. A bound of INT_MAX or more means no bound. */
static void print_bounds(json_t *row)
{
    static const char *const bounds[] = { "lowest", "highest" };

    for (int i = 0; i < 2; i++) {
        const double x = json_number_value(json_object_get(row, bounds[i]));

        if (x >= INT_MAX)
            json_object_set_new(row, bounds[i], json_null());
        else if (x == round(x))
            json_object_set_new(row, bounds[i], json_integer((json_int_t)x));
    }
}

/* A window of 0 frames means that attention sees all frames. */
static void print_window(json_t *row)
{
    if (json_integer_value(json_object_get(row, "window_frames")) == 0)
        json_object_set_new(row, "window_frames", json_string("all"));
}

enum { MAX_COLUMNS = 10 };

static const struct kind {
    const char *name;
    list_fn *fill;
    void (*print)(json_t *row); /* changes an object's values for the text table (NULL: none) */
    const char *columns[MAX_COLUMNS]; /* JSON members shown in the text table */
} kinds[] = {
    { "methods",
      list_methods,
      print_bits,
      { "name", "family", "study", "bits_per_element", "title" } },
    { "readings", list_readings, print_bits, { "spec", "bits_per_element", "source" } },
    { "metrics",
      list_metrics,
      print_bounds,
      { "name", "unit", "better", "lowest", "highest", "title" } },
    { "models",
      list_models,
      print_window,
      { "name", "layers", "heads", "head_dim", "tokens_per_frame", "frames_per_chunk",
        "window_frames", "prediction", "weights" } },
    { "suites", list_suites, NULL, { "name", "prompts", "frames", "seed", "model", "title" } },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static enum kvr_status find_kind(const char *name, const struct kind **out)
{
    const char *names[N_KINDS + 1] = { 0 };
    const char *near;

    for (int i = 0; i < N_KINDS; i++) {
        *out = &kinds[i];
        if (strcmp(kinds[i].name, name) == 0)
            return KVR_OK;
        names[i] = kinds[i].name;
    }
    near = kvr_nearest(name, names);
    return kvr_fail(
        KVR_EINVAL,
        "list: cannot list '%s'; need methods, readings, metrics, models or suites%s%s%s", name,
        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int run(const struct kvr_call *call)
{
    const struct list_opts *o = call->opts;
    const struct kind *kind;
    json_t *list;
    enum kvr_status st = find_kind(call->words[0], &kind);
    int code;

    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (o->md) {
        if (kind->fill != list_methods)
            return kvr_cli_fail(
                kvr_fail(KVR_EINVAL, "list: --md applies to `list methods` only, not to `list %s`",
                         kind->name));
        if (o->json)
            return kvr_cli_fail(
                kvr_fail(KVR_EINVAL, "list: --md and --json cannot be combined; use one"));
        return kvr_cli_wrote(kvr_catalogue_write(stdout), KVR_EXIT_OK);
    }
    list = json_array();
    st = kind->fill(list);
    code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    if (o->json)
        return kvr_cli_json(list, code); /* the array has the readable files; the exit code tells
                                          * that others failed */
    for (size_t i = 0; kind->print && i < json_array_size(list); i++)
        kind->print(json_array_get(list, i));
    st = kvr_cli_table(list, kind->columns);
    json_decref(list);
    return kvr_cli_wrote(st, code);
}

static const struct kvr_arg args[] = {
    KVR_ARG_FLAG(struct list_opts, json, "json", 0, "print a JSON array"),
    KVR_ARG_FLAG(struct list_opts, md, "md", 0,
                 "for `list methods`: print the methods as a Markdown table"),
    { 0 },
};

const struct kvr_command kvr_command_list = {
    .name = "list",
    .summary = "list methods, their versions (readings), metrics, models and suites of prompts",
    .usage = "methods|readings|metrics|models|suites [--json|--md]",
    .examples = "  kvreel list methods\n"
                "  kvreel list methods --json | jq -r '.[].name'\n"
                "  kvreel list readings --json | jq '.[] | select(.name == \"Q4_0\")'\n"
                "  kvreel list suites\n",
    .details =
        "A reading is a version of a method: as its own paper intends it (NAME), as the\n"
        "33-method study implemented it (NAME@study), or as another project does (NAME@vllm).\n"
        "`kvreel show READING` describes how it differs.\n"
        "bits_per_element is computed for 12 heads of 128 channels and includes scales and\n"
        "other side information; it is null if it depends on the data.\n",
    .args = args,
    .opts_size = sizeof(struct list_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
