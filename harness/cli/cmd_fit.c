/* cmd_fit.c - `kvreel fit`: lists the methods that fit into a memory budget, and the longest video
 * of each.
 */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/geometry.h"
#include "harness/plan/resources.h"

struct fit_opts {
    const char *memory, *geometry, *size, *path, *device, *compute, *decoder, *decoder_compute;
    int frames;
    bool study, json;
    struct kvr_arg_list methods;
};

/* Number of frame positions in the model's RoPE table: the limit on a video's latent frames. */
enum { MOST_FRAMES = 1024 };

static const double GiB = 1073741824.0;

struct job {
    const struct fit_opts *o;
    struct kvr_geometry geo;
    struct kvr_model_config config;
    struct kvr_predict_run run;
    enum kvr_decoder_kind decoder_kind;
    enum kvr_dtype decoder_type;
    int height, width;      /* in pixels */
    double budget, decoder; /* memory budget and decoder peak in bytes */
};

static enum kvr_status parse_memory(const char *text, double *bytes)
{
    static const struct {
        const char *unit;
        double n;
    } units[] = { { "GiB", 0x1p30 }, { "MiB", 0x1p20 }, { "GB", 1e9 }, { "MB", 1e6 }, { "B", 1 } };
    char *end;

    *bytes = text ? strtod(text, &end) : 0;
    for (size_t i = 0; text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && *bytes > 0 && *bytes < 1e15) {
            *bytes *= units[i].n;
            return KVR_OK;
        }
    if (!text)
        return kvr_fail(
            KVR_EINVAL,
            "fit: --memory SIZE is missing; give the available memory, such as --memory 24GiB");
    return kvr_fail(KVR_EINVAL,
                    "fit: --memory '%s': need a number above 0 and below 1e15 with the unit GiB, "
                    "MiB, GB, MB or B, such as 24GiB",
                    text);
}

/* Predicts the peak memory in bytes, with the upper bound of the cache if its size depends on the
 * data. */
static enum kvr_status peak_of(const struct job *j, const struct kvr_scheme *scheme, int frames,
                               struct kvr_prediction *p, double *peak)
{
    struct kvr_predict_run run = j->run;
    struct kvr_resources need;

    run.latent_frames = frames;
    run.bounds = true;
    KVR_TRY(kvr_predict_peak(scheme, &j->geo, &run, p));
    kvr_resources_of(&j->config, p, 0, j->decoder_kind, j->decoder_type, &need);
    *peak = (double)need.peak + (double)(p->nominal_max - p->nominal);
    return KVR_OK;
}

/* Returns the largest number of latent frames, in whole chunks, whose peak memory is within the
 * budget. The peak is a linear function of the length, because every chunk adds the same number of
 * bytes to the cache (0 if the cache has a fixed size). Two lengths (`frames` and `other`) with
 * their peaks determine the line. */
static int longest(const struct job *j, int frames, double peak, int other, double other_peak)
{
    const int chunk = j->geo.frames_per_chunk, most = MOST_FRAMES / chunk * chunk;
    const double slope = (other_peak - peak) / (other - frames);
    const double n = slope > 0 ? frames + (j->budget - peak) / slope : most;

    if (j->decoder > j->budget || (slope <= 0 && peak > j->budget))
        return 0;
    return n < chunk ? 0 : n >= most ? most : (int)(n / chunk) * chunk;
}

static json_t *row_json(const struct job *j, const char *method, const struct kvr_prediction *p,
                        double peak, int frames)
{
    return json_pack(
        "{s:s, s:b, s:I, s:i, s:i, s:I, s:I, s:f, s:I, s:I, s:s, s:s, s:s, s:i}", "method", method,
        "fits", peak <= j->budget && j->decoder <= j->budget, "peak_bytes", (json_int_t)peak,
        "max_frames", frames ? 1 + j->geo.pixel_frames * (frames - 1) : 0, "max_latent_frames",
        frames, "nominal_bytes", (json_int_t)p->nominal, "nominal_bytes_max",
        (json_int_t)p->nominal_max, "compression", (double)p->bf16 / (double)p->nominal_max,
        "decoder_bytes", (json_int_t)j->decoder, "memory_bytes", (json_int_t)j->budget, "geometry",
        j->o->geometry, "device", j->o->device, "compute", j->o->compute, "frames", j->o->frames);
}

/* Adds the row of one method, unless the method does not support the geometry's number or width of
 * heads. */
static enum kvr_status add_method(const struct job *j, const char *name, json_t *rows)
{
    struct kvr_scheme *scheme = NULL;
    struct kvr_prediction p = { 0 };
    const int asked = j->run.latent_frames;
    const int chunk = j->geo.frames_per_chunk;
    const int half = asked >= 2 * chunk ? asked / chunk / 2 * chunk : 2 * chunk; /* never `asked` */
    double peak = 0, other = 0;
    int frames = 0;
    enum kvr_status st = kvr_scheme_open(&scheme, name, NULL, 0);

    if (st == KVR_OK)
        st = kvr_scheme_check(scheme, j->geo.n_heads, j->geo.head_dim);
    if (st == KVR_OK)
        st = peak_of(j, scheme, half, &p, &other);
    if (st == KVR_OK)
        st = peak_of(j, scheme, asked, &p, &peak);
    if (st == KVR_OK)
        frames = longest(j, asked, peak, half, other);
    if (st == KVR_OK && json_array_append_new(rows, row_json(j, scheme->name, &p, peak, frames)))
        st = kvr_fail(KVR_ENOMEM, "fit: out of memory while adding method %s", name);
    kvr_scheme_close(&scheme);
    return st == KVR_EUNSUPPORTED || (st == KVR_EINVAL && !j->o->methods.n) ? KVR_OK : st;
}

static enum kvr_status add_all(const struct job *j, json_t *rows)
{
    char name[128];

    for (int i = 0; i < j->o->methods.n; i++)
        KVR_TRY(add_method(j, j->o->methods.v[i], rows));
    for (int i = 0; !j->o->methods.n && kvr_methods[i]; i++) {
        snprintf(name, sizeof name, "%s%s", kvr_methods[i]->name, j->o->study ? "@study" : "");
        KVR_TRY(add_method(j, name, rows));
    }
    return KVR_OK;
}

static enum kvr_status open_job(struct job *j, const struct fit_opts *o)
{
    enum kvr_dtype compute;
    struct kvr_resources need;
    int height = 0, width = 0;

    j->o = o;
    KVR_TRY(parse_memory(o->memory, &j->budget));
    if (o->size)
        KVR_TRY(kvr_resources_size(o->size, &height, &width));
    KVR_TRY(kvr_path_parse(&j->run.path, "fit: --path", o->path));
    KVR_TRY(kvr_device_parse(&j->run.backend, "fit: --device", o->device));
    KVR_TRY(kvr_compute_parse(o->compute, &compute));
    KVR_TRY(kvr_geometry_find(o->geometry, &j->geo));
    kvr_geometry_compute(&j->geo, j->run.backend, compute);
    KVR_TRY(kvr_latent_frames(&j->geo, o->frames, &j->run.latent_frames));
    kvr_cli_note_chunks("fit", o->frames, &j->geo, j->run.latent_frames);
    KVR_TRY(kvr_resources_config(o->geometry, height, width, &j->config));
    if (j->config.is_lm)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "fit: --geometry %s: this model is a language model; fit supports video models only",
            o->geometry);
    kvr_resources_resize(&j->geo, &j->config);
    KVR_TRY(
        kvr_resources_decoder(o->decoder, o->decoder_compute, &j->decoder_kind, &j->decoder_type));
    kvr_resources_of(&j->config, &(struct kvr_prediction){ .latent_frames = j->run.latent_frames },
                     0, j->decoder_kind, j->decoder_type, &need);
    j->height = need.height;
    j->width = need.width;
    j->decoder = (double)(need.decoder_weights + need.decoder_states + need.decoder_frames);
    return KVR_OK;
}

static int by_peak(const void *a, const void *b)
{
    const double x = json_number_value(json_object_get(*(json_t *const *)a, "peak_bytes"));
    const double y = json_number_value(json_object_get(*(json_t *const *)b, "peak_bytes"));

    return (x > y) - (x < y);
}

/* Sorts by memory, ascending. */
static enum kvr_status sort_rows(json_t *rows)
{
    const size_t n = json_array_size(rows);
    json_t **all = calloc(n + 1, sizeof(json_t *));

    if (!all)
        return kvr_fail(KVR_ENOMEM, "fit: out of memory while sorting %zu methods", n);
    for (size_t i = 0; i < n; i++)
        all[i] = json_incref(json_array_get(rows, i));
    qsort(all, n, sizeof(json_t *), by_peak);
    for (size_t i = 0; i < n; i++)
        json_array_set_new(rows, i, all[i]);
    free(all);
    return KVR_OK;
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

/* Prints upper bounds with "<=" and a lower bound with ">=" if the size depends on the data. */
static void print_row(const json_t *row)
{
    const bool bound = number(row, "nominal_bytes_max") > number(row, "nominal_bytes");
    char compression[32], cache[32], peak[32];

    snprintf(compression, sizeof compression, "%s%.2f", bound ? ">=" : "",
             number(row, "compression"));
    snprintf(cache, sizeof cache, "%s%.3f", bound ? "<=" : "",
             number(row, "nominal_bytes_max") / GiB);
    snprintf(peak, sizeof peak, "%s%.3f", bound ? "<=" : "", number(row, "peak_bytes") / GiB);
    printf("%-44s %11s %11s %10s %5s %5d frames\n",
           json_string_value(json_object_get(row, "method")), compression, cache, peak,
           json_is_true(json_object_get(row, "fits")) ? "yes" : "no",
           (int)number(row, "max_frames"));
}

static void print_rows(const struct job *j, const json_t *rows)
{
    const json_t *r;
    int fit = 0;
    size_t i;

    json_array_foreach(rows, i, r) fit += json_is_true(json_object_get(r, "fits"));
    printf("%.2f GiB on %s, %d pixel frames of %dx%d (height x width): %d of %zu methods fit\n\n",
           j->budget / GiB, j->o->device, j->o->frames, j->height, j->width, fit,
           json_array_size(rows));
    printf("%-44s %11s %11s %10s %5s %12s\n", "method", "compression", "cache (GiB)", "peak (GiB)",
           "fits", "max length");
    json_array_foreach(rows, i, r) print_row(r);
    printf(
        "\npeak: the KV cache, the buffer for dequantized tokens, and the network's weights and\n"
        "activations. The text encoder runs before the network, and the pixel decoder (%.3f GiB\n"
        "for any length) after it; neither adds to the peak. max length: pixel frames of the\n"
        "longest video that fits, extrapolated linearly from this length and half of it. The\n"
        "model has RoPE positions for at most %d latent frames, which limits max length.\n"
        "<= and >= mark bounds: the size of this method's cache depends on the data.\n",
        j->decoder / GiB, MOST_FRAMES);
}

static int run(const struct kvr_call *call)
{
    struct job j = { 0 };
    json_t *rows = json_array();
    enum kvr_status st = open_job(&j, call->opts);
    int code = KVR_EXIT_OK;

    if (st == KVR_OK)
        st = add_all(&j, rows);
    if (st == KVR_OK)
        st = sort_rows(rows);
    if (st != KVR_OK) {
        json_decref(rows);
        kvr_model_config_free(&j.config);
        return kvr_cli_fail(st);
    }
    if (j.o->json) {
        code = kvr_cli_json(rows, code);
    } else {
        print_rows(&j, rows);
        json_decref(rows);
    }
    kvr_model_config_free(&j.config);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct fit_opts, memory, "memory", 0, "SIZE", NULL,
                 "available memory with its unit (GiB, MiB, GB, MB or B), such as 24GiB or 80GB"),
    KVR_ARG_TEXT(struct fit_opts, geometry, "geometry", 'g', "NAME|FILE", "wan-1.3b",
                 "model whose layer and head sizes are used: wan-1.3b, wan-14b, wan-5b, the name "
                 "of a model folder, or the path of a config.json"),
    KVR_ARG_INT(struct fit_opts, frames, "frames", 'n', "N", "165", 1, 1000000,
                "number of pixel frames of the video, 1 to 1000000"),
    KVR_ARG_TEXT(
        struct fit_opts, size, "size", 0, "HxW", NULL,
        "height x width of the video in pixels, such as 720x1280; the default is the model's"),
    KVR_ARG_LIST(struct fit_opts, methods, "method", 'm', "METHOD",
                 "method to list, such as KIVI_INT2 (repeatable); the default is all methods"),
    KVR_ARG_FLAG(struct fit_opts, study, "study", 0,
                 "without --method: list every method as the 33-method study implemented it "
                 "(NAME@study), not as its own paper intends it"),
    KVR_ARG_TEXT(struct fit_opts, path, "path", 0, "NAME", "staged",
                 "how attention reads the compressed tokens: staged (dequantized block by block), "
                 "fused (dequantized inside the attention loop), dense (an uncompressed copy of "
                 "all tokens) or decoded (a BF16 copy, computed as in the 33-method study)"),
    KVR_ARG_TEXT(struct fit_opts, device, "device", 0, "NAME", "cuda",
                 "device that stores the cache and the weights: " KVR_DEVICE_HELP
                 " (CUDA kernels on the CPU)"),
    KVR_ARG_TEXT(struct fit_opts, decoder, "decoder", 0, "NAME", "vae",
                 "decoder of Wan's latents to pixels: vae (Wan's own) or taehv (a smaller, "
                 "approximate decoder)"),
    KVR_ARG_TEXT(struct fit_opts, decoder_compute, "decoder-compute", 0, "TYPE", "f32",
                 "compute type of the decoder: " KVR_COMPUTE_HELP),
    KVR_ARG_TEXT(struct fit_opts, compute, "compute", 0, "TYPE", "bf16",
                 "compute type of linear layers, and the type in which the device stores their "
                 "weights: " KVR_COMPUTE_HELP),
    KVR_ARG_FLAG(struct fit_opts, json, "json", 0, "print a JSON array with one object per method"),
    { 0 },
};

const struct kvr_command kvr_command_fit = {
    .name = "fit",
    .summary = "list the methods that fit a memory size, and the longest video of each",
    .usage = "--memory SIZE [options]",
    .examples = "  kvreel fit --memory 24GiB\n"
                "  kvreel fit --memory 80GB --geometry wan-14b --size 720x1280 --frames 81\n"
                "  kvreel fit --memory 24GiB -m BF16 -m KIVI_INT2 --frames 321\n",
    .details =
        "Videos of any length are predicted. `run` and `generate` accept whole chunks only; a\n"
        "note names the nearest lengths that they accept.\n",
    .args = args,
    .opts_size = sizeof(struct fit_opts),
    .max_words = 0,
    .run = run,
};
