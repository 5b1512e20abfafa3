/* cmd_compare.c - `kvreel compare`: how far one video is from another. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/media/media.h"

struct compare_opts {
    bool json, series;
    double min_psnr, min_ssim;
};

/* One metric as JSON members NAME_UNIT: value or null, with the reason beside it. */
static enum kvr_status add(json_t *doc, const struct kvr_metric *m, const struct kvr_video *ref,
                           const struct kvr_video *test, bool series)
{
    struct kvr_metric_value v = { 0 };
    char key[64];
    enum kvr_status st = kvr_metric_compute(m, &ref->frames, &test->frames, &v);

    if (st != KVR_OK)
        return st;
    snprintf(key, sizeof key, "%s%s", m->name, strcmp(m->unit, "dB") == 0 ? "_db" : "");
    if (v.missing[0]) {
        json_object_set_new(doc, key, json_null());
        snprintf(key, sizeof key, "%s_missing", m->name);
        json_object_set_new(doc, key, json_string(v.missing));
    } else if (strcmp(m->unit, "frames") == 0) {
        json_object_set_new(doc, key, json_integer((json_int_t)v.value));
    } else {
        json_object_set_new(doc, key, json_real(v.value));
    }
    if (series && v.n_series) {
        json_t *list = json_array();

        for (int i = 0; i < v.n_series; i++)
            json_array_append_new(list, v.series[i] == v.series[i] ? json_real(v.series[i])
                                                                   : json_null());
        snprintf(key, sizeof key, "%s_per_frame", m->name);
        json_object_set_new(doc, key, list);
    }
    kvr_metric_value_free(&v);
    return KVR_OK;
}

static enum kvr_status measure(json_t *doc, const struct kvr_call *call, bool series)
{
    struct kvr_video ref = { 0 }, test = { 0 };
    enum kvr_status st = kvr_video_read(&ref, call->words[0]);

    if (st == KVR_OK)
        st = kvr_video_read(&test, call->words[1]);
    if (st == KVR_OK) {
        json_object_set_new(doc, "reference", json_string(call->words[0]));
        json_object_set_new(doc, "test", json_string(call->words[1]));
        json_object_set_new(doc, "frames", json_integer(ref.frames.n));
        json_object_set_new(doc, "height", json_integer(ref.frames.height));
        json_object_set_new(doc, "width", json_integer(ref.frames.width));
    }
    for (int i = 0; st == KVR_OK && kvr_metrics[i]; i++)
        st = add(doc, kvr_metrics[i], &ref, &test, series);
    kvr_video_free(&ref);
    kvr_video_free(&test);
    return st;
}

/* A limit that was given and not met. A missing value meets no limit. */
static bool below(const json_t *doc, const char *key, double limit)
{
    return limit > 0 && !(json_number_value(json_object_get(doc, key)) >= limit);
}

static int run(const struct kvr_call *call)
{
    const struct compare_opts *o = call->opts;
    json_t *doc = json_object();
    enum kvr_status st = measure(doc, call, o->series);
    bool ok;
    int code;

    if (st != KVR_OK) {
        json_decref(doc);
        return kvr_cli_fail(st);
    }
    ok = !below(doc, "psnr_db", o->min_psnr) && !below(doc, "ssim", o->min_ssim);
    json_object_set_new(doc, "ok", json_boolean(ok));
    code = ok ? KVR_EXIT_OK : KVR_EXIT_TOLERANCE;
    if (o->json)
        return kvr_cli_json(doc, code);
    printf("%lld frames  PSNR %.2f dB  SSIM %.4f  %lld identical frames\n",
           (long long)json_integer_value(json_object_get(doc, "frames")),
           json_number_value(json_object_get(doc, "psnr_db")),
           json_number_value(json_object_get(doc, "ssim")),
           (long long)json_integer_value(json_object_get(doc, "identical_frames")));
    json_decref(doc);
    if (!ok)
        fprintf(stderr, "kvreel: compare: out of tolerance (--min-psnr %g, --min-ssim %g)\n",
                o->min_psnr, o->min_ssim);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_REAL(struct compare_opts, min_psnr, "min-psnr", 0, "DB", NULL, 0, 1000,
                 "exit 4 when the PSNR is lower"),
    KVR_ARG_REAL(struct compare_opts, min_ssim, "min-ssim", 0, "X", NULL, 0, 1,
                 "exit 4 when the SSIM is lower"),
    KVR_ARG_FLAG(struct compare_opts, series, "series", 0,
                 "with --json: the values per frame, too"),
    KVR_ARG_FLAG(struct compare_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_compare = {
    .name = "compare",
    .summary = "fidelity of one video, or raw frame file, against another",
    .usage = "REFERENCE TEST [options]",
    .examples =
        "  kvreel compare bf16.safetensors int4.safetensors  # raw frames: the real numbers\n"
        "  kvreel compare bf16.mp4 int4.mp4 --json           # after a video encoder\n"
        "  kvreel compare a.safetensors b.safetensors --min-psnr 30\n",
    .args = args,
    .opts_size = sizeof(struct compare_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
