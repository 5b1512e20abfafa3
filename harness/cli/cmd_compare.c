/* cmd_compare.c - `kvreel compare`: measures the distance between two videos. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/json.h"
#include "harness/core/opts.h"
#include "harness/files/media/media.h"
#include "harness/run/score.h"

struct compare_opts {
    bool json, series;
    double min_psnr, min_ssim;
    int chunk;
    const char *metrics;
};

enum { MAX_METRICS = 64 };

/* --- choice of metrics ------------------------------------------------------------------- */

static enum kvr_status find(const char *name, const struct kvr_metric **out)
{
    const char *names[MAX_METRICS + 1] = { 0 };
    const char *near;

    *out = kvr_metric_find(name);
    if (*out && (*out)->truth)
        return kvr_fail(KVR_EINVAL,
                        "compare: only sweeps compute metric %s, against the recorded clip of a "
                        "prompt; give that clip as the first video, and the metric's name without "
                        "_truth",
                        name);
    if (*out)
        return KVR_OK;
    for (int i = 0; i < MAX_METRICS && kvr_metrics[i]; i++)
        names[i] = kvr_metrics[i]->name;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_EINVAL, "compare: unknown metric '%s'%s%s%s", name,
                    near ? "; did you mean '" : "; `kvreel list metrics` lists them",
                    near ? near : "", near ? "'?" : "");
}

static enum kvr_status add_named(const struct kvr_metric **list, int *n, const char *name)
{
    KVR_TRY(find(name, &list[*n]));
    for (int i = 0; i < *n; i++)
        if (list[i] == list[*n])
            return kvr_fail(KVR_EINVAL, "compare: --metrics: metric '%s' is listed twice", name);
    if (++*n == MAX_METRICS)
        return kvr_fail(KVR_EINVAL, "compare: --metrics lists more than the limit of %d metrics",
                        MAX_METRICS - 1);
    return KVR_OK;
}

/* Parses a list of metric names: "all", "psnr,sharpness", or NULL for the default metrics. */
static enum kvr_status choose(const char *text, const struct kvr_metric **list, int *n)
{
    char copy[1024], *save = NULL;

    *n = 0;
    if (!text || strcmp(text, "all") == 0) {
        for (int i = 0; kvr_metrics[i]; i++)
            if (text || kvr_metrics[i]->usual)
                list[(*n)++] = kvr_metrics[i];
        return KVR_OK;
    }
    if (strlen(text) >= sizeof copy)
        return kvr_fail(KVR_EINVAL,
                        "compare: --metrics has %zu characters, at most %zu are allowed",
                        strlen(text), sizeof copy - 1);
    strcpy(copy, text);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
        KVR_TRY(add_named(list, n, w));
    return *n ? KVR_OK
              : kvr_fail(KVR_EINVAL,
                         "compare: --metrics '%s' has no names; need metric names, separated by "
                         "commas, or all",
                         text);
}

/* --- values ------------------------------------------------------------------------------ */

static void add_series(json_t *doc, const struct kvr_metric *m, const struct kvr_metric_value *v)
{
    json_t *list = json_array();
    char key[64];

    for (int i = 0; i < v->n_series; i++)
        json_array_append_new(list,
                              v->series[i] == v->series[i] ? json_real(v->series[i]) : json_null());
    snprintf(key, sizeof key, "%s_per_frame", m->name);
    json_object_set_new(doc, key, list);
}

/* Adds one metric as JSON member NAME_UNIT: its value, or null with the reason. */
static enum kvr_status add(json_t *doc, const struct kvr_metric *m,
                           const struct kvr_metric_input *in, bool series)
{
    struct kvr_metric_value v = { 0 };
    char key[64];

    KVR_TRY(kvr_metric_measure(m, in, &v));
    snprintf(key, sizeof key, "%s%s", m->name, strcmp(m->unit, "dB") == 0 ? "_db" : "");
    if (v.missing[0]) {
        json_object_set_new(doc, key, json_null());
        snprintf(key, sizeof key, "%s_missing", m->name);
        json_object_set_new(doc, key, kvr_json_words(v.missing));
    } else if (strcmp(m->unit, "frames") == 0) {
        json_object_set_new(doc, key, json_integer((json_int_t)v.value));
    } else {
        json_object_set_new(doc, key, json_real(v.value));
    }
    if (series && v.n_series)
        add_series(doc, m, &v);
    kvr_metric_value_free(&v);
    return KVR_OK;
}

/* Adds the codec of a video file and warns that the metrics include its loss. */
static enum kvr_status add_codec(json_t *doc, const char *side, const char *path,
                                 const struct kvr_video *v)
{
    char key[32];

    if (!v->codec[0])
        return KVR_OK;
    snprintf(key, sizeof key, "%s_codec", side);
    if (json_object_set_new(doc, key, json_string(v->codec)))
        return kvr_fail(KVR_ENOMEM, "compare: out of memory");
    fprintf(stderr,
            "kvreel: compare: %s was decoded from %s, so the numbers include the video encoder's "
            "loss; compare raw frames (.safetensors) instead\n",
            path, v->codec);
    return KVR_OK;
}

/* Refuses two videos whose pixel aspect ratios differ, because players show frames with identical
 * pixels at different widths. */
static enum kvr_status same_pixels(const char *const *path, const struct kvr_video *a,
                                   const struct kvr_video *b)
{
    if ((int64_t)a->pixel.num * b->pixel.den == (int64_t)b->pixel.num * a->pixel.den)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "compare: %s has a pixel aspect ratio of %d:%d, but %s has %d:%d; scale one "
                    "video to match the other",
                    path[0], a->pixel.num, a->pixel.den, path[1], b->pixel.num, b->pixel.den);
}

static enum kvr_status measure(json_t *doc, const struct kvr_call *call)
{
    const struct compare_opts *o = call->opts;
    const struct kvr_metric *list[MAX_METRICS + 1];
    struct kvr_video ref = { 0 }, test = { 0 };
    struct kvr_score_weights weights;
    struct kvr_metric_input in = { .ref = &ref.frames, .test = &test.frames, .chunk = o->chunk };
    enum kvr_status st;
    int n;

    kvr_score_weights(&weights);
    kvr_score_name_weights(&in, &weights);
    st = choose(o->metrics, list, &n);
    if (st == KVR_OK)
        st = kvr_video_read(&ref, call->words[0]);
    if (st == KVR_OK)
        st = kvr_video_read(&test, call->words[1]);
    if (st == KVR_OK)
        st = same_pixels(call->words, &ref, &test);
    if (st == KVR_OK) {
        json_object_set_new(doc, "reference", kvr_json_words(call->words[0]));
        json_object_set_new(doc, "test", kvr_json_words(call->words[1]));
        json_object_set_new(doc, "frames", json_integer(ref.frames.n));
        json_object_set_new(doc, "height", json_integer(ref.frames.height));
        json_object_set_new(doc, "width", json_integer(ref.frames.width));
        st = add_codec(doc, "reference", call->words[0], &ref);
    }
    if (st == KVR_OK)
        st = add_codec(doc, "test", call->words[1], &test);
    for (int i = 0; st == KVR_OK && i < n; i++)
        st = add(doc, list[i], &in, o->series);
    kvr_video_free(&ref);
    kvr_video_free(&test);
    return st;
}

/* Prints the default metrics on one line and every other metric on a line of its own. */
static void print(const json_t *doc, bool usual)
{
    static const char *const shown[] = { "reference",        "test",       "frames",
                                         "height",           "width",      "ok",
                                         "identical_frames", "psnr_db",    "ssim",
                                         "reference_codec",  "test_codec", NULL };
    const char *key;
    json_t *value;

    printf("%lld frames", (long long)json_integer_value(json_object_get(doc, "frames")));
    if (json_is_number(json_object_get(doc, "psnr_db")))
        printf("  PSNR %.2f dB", json_number_value(json_object_get(doc, "psnr_db")));
    if (json_is_number(json_object_get(doc, "ssim")))
        printf("  SSIM %.4f", json_number_value(json_object_get(doc, "ssim")));
    if (json_is_number(json_object_get(doc, "identical_frames")))
        printf("  %lld identical frames",
               (long long)json_integer_value(json_object_get(doc, "identical_frames")));
    printf("\n");
    json_object_foreach((json_t *)(uintptr_t)doc, key, value)
    {
        bool known = usual;

        for (int i = 0; shown[i]; i++)
            known = known || (strcmp(shown[i], key) == 0 && !json_is_null(value));
        if (known || json_is_array(value) || json_is_null(value))
            continue;
        if (json_is_string(value))
            printf("%s: %s\n", key, json_string_value(value));
        else
            printf("%s %.6g\n", key, json_number_value(value));
    }
}

/* Returns whether metric `key` of the result is null or below the lower limit `limit`. Returns
 * false for limit 0, which means no limit. */
static bool misses_limit(const json_t *doc, const char *key, double limit)
{
    return limit > 0 && !(json_number_value(json_object_get(doc, key)) >= limit);
}

/* Reports on stderr a metric that misses its limit, the option `option`. */
static void print_miss(const json_t *doc, const char *key, const char *option, double limit)
{
    const json_t *value = json_object_get(doc, key);

    if (!misses_limit(doc, key, limit))
        return;
    if (json_is_number(value))
        fprintf(stderr, "kvreel: compare: out of tolerance: %s is %g, need at least %g (%s)\n", key,
                json_number_value(value), limit, option);
    else
        fprintf(stderr,
                "kvreel: compare: out of tolerance: %s has no value, need at least %g (%s)\n", key,
                limit, option);
}

static int run(const struct kvr_call *call)
{
    const struct compare_opts *o = call->opts;
    json_t *doc = json_object();
    enum kvr_status st = measure(doc, call);
    bool ok;
    int code;

    if (st != KVR_OK) {
        json_decref(doc);
        return kvr_cli_fail(st);
    }
    ok = !misses_limit(doc, "psnr_db", o->min_psnr) && !misses_limit(doc, "ssim", o->min_ssim);
    json_object_set_new(doc, "ok", json_boolean(ok));
    code = ok ? KVR_EXIT_OK : KVR_EXIT_TOLERANCE;
    if (o->json)
        return kvr_cli_json(doc, code);
    print(doc, !o->metrics);
    print_miss(doc, "psnr_db", "--min-psnr", o->min_psnr);
    print_miss(doc, "ssim", "--min-ssim", o->min_ssim);
    json_decref(doc);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_REAL(struct compare_opts, min_psnr, "min-psnr", 0, "DB", NULL, 0, 1000,
                 "exit with code 4 if the PSNR is lower than this, in dB; 0 means no limit"),
    KVR_ARG_REAL(struct compare_opts, min_ssim, "min-ssim", 0, "X", NULL, 0, 1,
                 "exit with code 4 if the SSIM is lower than this (0 to 1); 0 means no limit"),
    KVR_ARG_TEXT(struct compare_opts, metrics, "metrics", 'm', "LIST", NULL,
                 "metric names, separated by commas, or all; the default is "
                 "psnr,ssim,identical_frames; names: kvreel list metrics"),
    KVR_ARG_INT(struct compare_opts, chunk, "chunk", 'c', "N", "0", 0, 100000,
                "number of video frames per chunk, for metrics chunk_discontinuity and "
                "colour_drift; 0 means unknown"),
    KVR_ARG_FLAG(struct compare_opts, series, "series", 0,
                 "with --json: include each metric's value for every frame"),
    KVR_ARG_FLAG(struct compare_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_compare = {
    .name = "compare",
    .summary = "compare two videos, or two files of raw frames",
    .usage = "REFERENCE TEST [options]",
    .examples =
        "  kvreel compare bf16.safetensors int4.safetensors  # raw frames\n"
        "  kvreel compare bf16.mp4 int4.mp4 --json           # includes the video encoder's loss\n"
        "  kvreel compare a.safetensors b.safetensors --min-psnr 30\n"
        "  kvreel compare a.mp4 b.mp4 --metrics all --chunk 12 --json --series\n",
    .args = args,
    .opts_size = sizeof(struct compare_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
