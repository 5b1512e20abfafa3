/* cmd_predict.c - `kvreel predict`: computes bytes and peak memory from the format, without a
 * run. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/wrap.h"
#include "harness/core/infile.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/engine/vae/encoder.h"
#include "harness/plan/find.h"
#include "harness/plan/geometry.h"
#include "harness/plan/resources.h"

struct predict_opts {
    const char *method, *geometry, *path, *as_stored, *device, *compute, *size, *decoder,
        *decoder_compute;
    int frames, layers, window;
    bool json, image;
    struct kvr_arg_list set;
};

static const double GiB = 1073741824.0;

static json_t *bytes_json(size_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *ratio_json(size_t whole, size_t part)
{
    return part ? json_real((double)whole / (double)part) : json_null();
}

/* Bytes by memory tag at the peak; a tag without a prediction is null, because 0 would mean no
 * memory. */
static json_t *tags_json(const struct kvr_prediction *p)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:n, s:n}", kvr_mem_tag_name(KVR_MEM_KV),
                     bytes_json(p->at_peak.kv), kvr_mem_tag_name(KVR_MEM_META),
                     bytes_json(p->at_peak.meta), kvr_mem_tag_name(KVR_MEM_SCRATCH),
                     bytes_json(p->scratch), kvr_mem_tag_name(KVR_MEM_WEIGHTS),
                     p->weights ? bytes_json(p->weights) : json_null(),
                     kvr_mem_tag_name(KVR_MEM_ACT), kvr_mem_tag_name(KVR_MEM_IO));
}

static json_t *prediction_json(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                               const struct predict_opts *o, const struct kvr_prediction *p)
{
    json_t *doc =
        json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:I, s:o, s:o, s:o, s:b}", "method", scheme->name,
                  "geometry", geo->name, "layers", geo->n_layers, "path", o->path, "frames",
                  1 + geo->pixel_frames * (p->latent_frames - 1), "latent_frames", p->latent_frames,
                  "tokens", (json_int_t)p->tokens, "bf16_bytes", bytes_json(p->bf16),
                  "nominal_bytes", bytes_json(p->nominal), "compression",
                  ratio_json(p->bf16, p->nominal), "data_dependent", p->data_dependent);

    if (p->data_dependent) {
        json_object_set_new(doc, "nominal_bytes_min", bytes_json(p->nominal_min));
        json_object_set_new(doc, "nominal_bytes_max", bytes_json(p->nominal_max));
        json_object_set_new(doc, "compression_min", ratio_json(p->bf16, p->nominal_max));
        json_object_set_new(doc, "compression_max", ratio_json(p->bf16, p->nominal_min));
        json_object_set_new(doc, "depends", json_string(p->depends));
    }
    json_object_set_new(doc, "peak_bytes", bytes_json(p->peak));
    json_object_set_new(doc, "peak_by_tag", tags_json(p));
    json_object_set_new(doc, "not_predicted",
                        json_string("activations (memory tag ACT); frames, noise and file buffers "
                                    "(memory tag IO); the workspace of linear layers"));
    return doc;
}

/* Sets *out to the study's published peak memory in GiB of `method` on the prompts of `suite` (the
 * first value, if the published table has several), or to null if the table has none. */
static enum kvr_status published(const char *method, const char *suite, json_t **out)
{
    static const struct kvr_find table = { "published table", "results/published", ".csv", NULL };
    char path[1024], line[512];
    const int column = !strcmp(suite, "storyeval") ? 2 : 1;
    FILE *f;

    *out = json_null();
    KVR_TRY(kvr_find_path(&table, "kvquant33_peak_gib", NULL, path, sizeof path));
    KVR_TRY(kvr_infile_open_text(&f, path));
    while (json_is_null(*out) && fgets(line, sizeof line, f)) {
        char *at = line, *cell = NULL;

        for (int i = 0; i <= column; i++) {
            cell = strsep(&at, ",\r\n");
            if (!cell || (i == 0 && strcmp(cell, method) != 0)) {
                cell = NULL;
                break;
            }
        }
        if (cell && *cell) {
            json_decref(*out);
            *out = json_real(strtod(cell, NULL));
        }
    }
    fclose(f);
    return KVR_OK;
}

static enum kvr_status add_as_stored(json_t *doc, const struct kvr_scheme *scheme,
                                     const struct kvr_geometry *geo, const struct predict_opts *o)
{
    const bool storyeval = !strcmp(scheme->opts.layer_budget, "storyeval");
    const char *suite = storyeval ? "storyeval" : "moviegen";
    struct kvr_study_peak s;
    json_t *value;

    if (strcmp(o->as_stored, "study") != 0)
        return kvr_fail(KVR_EINVAL, "predict: --as-stored '%s': the only allowed value is 'study'",
                        o->as_stored);
    if (strcmp(geo->name, kvr_wan_1_3b.name) != 0 || o->frames != 165)
        return kvr_fail(
            KVR_EINVAL,
            "predict: --as-stored study: supported only with --geometry wan-1.3b --frames 165, "
            "which the 33-method study measured; got --geometry %s --frames %d",
            geo->name, o->frames);
    KVR_TRY(kvr_predict_study_peak(scheme, &s));
    KVR_TRY(published(scheme->method->name, suite, &value));
    json_object_set_new(
        doc, "as_stored",
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "era", s.era, "stored",
                  s.stored, "suite", suite, "resident_bytes",
                  s.known ? bytes_json(s.resident) : json_null(), "non_kv_bytes",
                  bytes_json(s.non_kv), "left_over_bytes", bytes_json(s.left_over), "peak_bytes",
                  s.known ? bytes_json(s.peak) : json_null(), "peak_gib",
                  s.known ? json_real((double)s.peak / GiB) : json_null(), "published_gib", value,
                  "packed_peak_bytes", bytes_json(s.packed_peak), "packed_peak_gib",
                  json_real((double)s.packed_peak / GiB)));
    return KVR_OK;
}

/* Adds the memory of each phase of a rollout; null if the model config is not known. */
static enum kvr_status add_phases(json_t *doc, const struct kvr_model_config *c,
                                  const struct kvr_prediction *p, const struct predict_opts *o)
{
    enum kvr_decoder_kind kind;
    enum kvr_dtype type;
    struct kvr_resources n;
    json_t *text, *network, *decoder;
    int window;

    if (!c)
        return json_object_set_new(doc, "phases", json_null())
                   ? kvr_fail(KVR_ENOMEM, "predict: out of memory")
                   : KVR_OK;
    KVR_TRY(kvr_resources_decoder(o->decoder, o->decoder_compute, &kind, &type));
    window = o->window < 0 ? c->window_frames : o->window;
    kvr_resources_of(c, p, window, kind, type, &n);
    text = n.text_file ? json_pack("{s:o, s:o, s:f}", "file_bytes", bytes_json(n.text_file),
                                   "memory_bytes", bytes_json(n.text_bytes), "flop", n.text_flop)
                       : json_null();
    network =
        json_pack("{s:o, s:o, s:f, s:i}", "activation_bytes", bytes_json(n.activations),
                  "memory_bytes", bytes_json(n.peak), "flop", n.network_flop, "window", window);
    decoder =
        n.decoder_flop > 0
            ? json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:f}", "name", kvr_decoder_names[kind],
                        "compute", kvr_compute_word(type), "weight_bytes",
                        bytes_json(n.decoder_weights), "state_bytes", bytes_json(n.decoder_states),
                        "frame_bytes", bytes_json(n.decoder_frames), "memory_bytes",
                        bytes_json(n.decoder_weights + n.decoder_states + n.decoder_frames), "flop",
                        n.decoder_flop)
            : json_null();
    if (json_object_set_new(doc, "phases",
                            json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:o}", "text", text,
                                      "network", network, "decoder", decoder, "frames", n.frames,
                                      "height", n.height, "width", n.width, "frames_file_bytes",
                                      bytes_json(n.frames_file))))
        return kvr_fail(KVR_ENOMEM, "predict: out of memory");
    return KVR_OK;
}

enum { ENCODER_THREADS = 16 }; /* CPU threads, each with a buffer for attention scores */

/* Adds the memory and operations of encoding a first frame (--image) to the phases. */
static enum kvr_status add_image(json_t *doc, const struct kvr_model_config *c,
                                 const char *geometry)
{
    struct kvr_vae_encoder_cost cost;

    if (!c || c->latent_is_rgb || c->is_lm ||
        !kvr_vae_encoder_cost(c->in_dim, c->latent_h, c->latent_w, ENCODER_THREADS, &cost))
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "predict: --image: geometry %s does not accept a first frame from an image; only "
            "models with Wan 2.2's latents (48 channels, such as wan-5b) do",
            geometry);
    return json_object_set_new(json_object_get(doc, "phases"), "image",
                               json_pack("{s:o, s:o, s:o, s:f}", "activation_bytes",
                                         bytes_json(cost.frames + cost.scores), "layer_bytes",
                                         bytes_json(cost.layer), "memory_bytes",
                                         bytes_json(cost.frames + cost.scores + cost.layer), "flop",
                                         cost.flop))
               ? kvr_fail(KVR_ENOMEM, "predict: out of memory")
               : KVR_OK;
}

static double number(const json_t *doc, const char *key)
{
    return json_number_value(json_object_get(doc, key));
}

static const char *text(const json_t *doc, const char *key)
{
    return json_string_value(json_object_get(doc, key));
}

static void print_as_stored(const json_t *s)
{
    const json_t *published_gib = json_object_get(s, "published_gib");

    printf("\n"
           "with the tensor types of the 33-method study, whose code had three versions, A, B and "
           "C (this method ran with version %s: %s)\n",
           text(s, "era"), text(s, "stored"));
    if (json_is_number(json_object_get(s, "peak_bytes")))
        printf("  %.4f GiB of cache + %.4f GiB of other memory + %.4f GiB of the previous prompt's "
               "tensors, which the study's code had not freed\n"
               "  peak %.4f GiB",
               number(s, "resident_bytes") / GiB, number(s, "non_kv_bytes") / GiB,
               number(s, "left_over_bytes") / GiB, number(s, "peak_gib"));
    else
        printf("  peak not reproducible");
    if (json_is_number(published_gib))
        printf(", published %.4f GiB (%s)", json_number_value(published_gib), text(s, "suite"));
    printf(
        "\n"
        "  peak if the cache were bit-packed and the previous prompt's tensors freed: %.4f GiB\n",
        number(s, "packed_peak_gib"));
}

static void print_phases(const json_t *phases)
{
    const json_t *text_part = json_object_get(phases, "text");
    const json_t *network = json_object_get(phases, "network");
    const json_t *decoder = json_object_get(phases, "decoder");
    const json_t *image = json_object_get(phases, "image");
    char window[40];

    printf("\n"
           "device memory and operations of each phase of generating %.0f frames of %.0fx%.0f "
           "(height x width); the phases run one after another\n",
           number(phases, "frames"), number(phases, "height"), number(phases, "width"));
    if (json_is_object(text_part))
        printf("  text encoder  %8.4f GiB of memory, weights of %.4f GiB on disk; %.3g TFLOP per "
               "prompt\n",
               number(text_part, "memory_bytes") / GiB, number(text_part, "file_bytes") / GiB,
               number(text_part, "flop") * 1e-12);
    if (image)
        printf("  image encoder %8.4f GiB, including %.4f GiB of weights of its largest layer; "
               "%.3g TFLOP\n",
               number(image, "memory_bytes") / GiB, number(image, "layer_bytes") / GiB,
               number(image, "flop") * 1e-12);
    snprintf(window, sizeof window, "%.0f latent frames", number(network, "window"));
    printf("  network       %8.4f GiB, the memory above and %.4f GiB of activations; %.4g TFLOP, "
           "attention window: %s\n",
           number(network, "memory_bytes") / GiB, number(network, "activation_bytes") / GiB,
           number(network, "flop") * 1e-12, number(network, "window") > 0 ? window : "all frames");
    if (json_is_object(decoder))
        printf("  decoder       %8.4f GiB, including %.4f GiB of cached convolution inputs; %.4g "
               "TFLOP in %s\n",
               number(decoder, "memory_bytes") / GiB, number(decoder, "state_bytes") / GiB,
               number(decoder, "flop") * 1e-12, text(decoder, "compute"));
    printf("  raw frames    %8.4f GiB on disk, the uncompressed video\n",
           number(phases, "frames_file_bytes") / GiB);
}

/* Prints the size of the compressed cache. If it depends on the data, prints its bounds; the
 * nominal size is then printed only if it is an estimate, not the lower bound. */
static void print_sizes(const json_t *doc)
{
    const bool depends = json_is_true(json_object_get(doc, "data_dependent"));

    if (!depends || number(doc, "nominal_bytes") > number(doc, "nominal_bytes_min"))
        printf("  nominal  %14.0f B  %8.4f GiB  (compressed KV cache, %.4f x smaller)\n",
               number(doc, "nominal_bytes"), number(doc, "nominal_bytes") / GiB,
               number(doc, "compression"));
    else
        printf("  nominal  %14s    %8s      (compressed KV cache: within these bounds)\n", "-",
               "-");
    if (!depends)
        return;
    printf("  at most  %14.0f B  %8.4f GiB  (%.4f x smaller)\n", number(doc, "nominal_bytes_max"),
           number(doc, "nominal_bytes_max") / GiB, number(doc, "compression_min"));
    printf("  at least %14.0f B  %8.4f GiB  (%.4f x smaller)\n  ", number(doc, "nominal_bytes_min"),
           number(doc, "nominal_bytes_min") / GiB, number(doc, "compression_max"));
    kvr_wrap(stdout, 2, 2, text(doc, "depends"));
}

static void print_text(const json_t *doc)
{
    const json_t *tags = json_object_get(doc, "peak_by_tag"), *as_stored;
    const char *tag;
    json_t *n;

    printf("%s on %s, %.0f latent frames, %.0f tokens\n", text(doc, "method"),
           text(doc, "geometry"), number(doc, "latent_frames"), number(doc, "tokens"));
    printf("  BF16     %14.0f B  %8.4f GiB  (uncompressed KV cache)\n", number(doc, "bf16_bytes"),
           number(doc, "bf16_bytes") / GiB);
    print_sizes(doc);
    printf("  memory   %14.0f B  %8.4f GiB  (peak sum of the kinds below; without activations)\n",
           number(doc, "peak_bytes"), number(doc, "peak_bytes") / GiB);
    json_object_foreach((json_t *)tags, tag, n)
    {
        if (!json_is_null(n))
            printf("    %-8s %12.0f B\n", tag, json_number_value(n));
        else if (!strcmp(tag, kvr_mem_tag_name(KVR_MEM_WEIGHTS)))
            printf("    %-8s not predicted: the number of weights is unknown\n", tag);
    }
    if (json_is_true(json_object_get(doc, "data_dependent")))
        printf("  This memory has the nominal cache; a cache of the largest size needs %.4f GiB "
               "more.\n",
               (number(doc, "nominal_bytes_max") - number(doc, "nominal_bytes")) / GiB);
    if (json_is_object(json_object_get(doc, "phases")))
        print_phases(json_object_get(doc, "phases"));
    as_stored = json_object_get(doc, "as_stored");
    if (as_stored)
        print_as_stored(as_stored);
}

/* Reads the config of the model that has the chosen geometry (o->geometry). Sets *known to false if
 * there is no such config, or if it is a language model's. */
static enum kvr_status read_config(const struct predict_opts *o, struct kvr_model_config *c,
                                   bool *known)
{
    int height = 0, width = 0;
    enum kvr_status st;

    *known = false;
    if (o->size)
        KVR_TRY(kvr_resources_size(o->size, &height, &width));
    st = kvr_resources_config(o->geometry, height, width, c);
    if (st != KVR_OK)
        return o->size || st == KVR_ENOMEM ? st : KVR_OK;
    *known = !c->is_lm;
    if (c->is_lm)
        kvr_model_config_free(c);
    else if (o->layers)
        c->n_layers = o->layers;
    return KVR_OK;
}

static enum kvr_status predict(const struct predict_opts *o, struct kvr_scheme **scheme,
                               json_t **doc)
{
    struct kvr_setting set[KVR_ARG_LIST_MAX];
    char buf[4096];
    struct kvr_geometry geo;
    struct kvr_prediction p;
    enum kvr_path path = KVR_PATH_STAGED;
    enum kvr_backend backend = KVR_CPU;
    enum kvr_dtype compute = KVR_F32;
    struct kvr_model_config config;
    enum kvr_status st;
    int latent_frames;
    bool known;

    if (!o->method || !o->geometry)
        return kvr_fail(
            KVR_EINVAL,
            "predict: %s is missing; give both --method METHOD and --geometry NAME|FILE",
            o->method ? "--geometry" : "--method");
    KVR_TRY(kvr_cli_settings(&o->set, set, buf, sizeof buf));
    KVR_TRY(kvr_scheme_open(scheme, o->method, set, o->set.n));
    KVR_TRY(kvr_geometry_find_part(o->geometry, o->layers, &geo));
    if (!o->frames && !geo.window_frames)
        return kvr_fail(KVR_EINVAL,
                        "predict: --frames N is missing, and geometry %s has no attention window "
                        "that could be the default",
                        geo.name);
    latent_frames = geo.window_frames;
    if (o->frames)
        KVR_TRY(kvr_latent_frames(&geo, o->frames, &latent_frames));
    kvr_cli_note_chunks("predict", o->frames, &geo, latent_frames);
    KVR_TRY(kvr_path_parse(&path, "predict: --path", o->path));
    KVR_TRY(kvr_device_parse(&backend, "predict: --device", o->device));
    KVR_TRY(kvr_compute_parse(o->compute, &compute));
    kvr_geometry_compute(&geo, backend, compute);
    KVR_TRY(read_config(o, &config, &known));
    if (known)
        kvr_resources_resize(&geo, &config);
    st = kvr_predict(*scheme, &geo,
                     &(struct kvr_predict_run){
                         .latent_frames = latent_frames, .path = path, .backend = backend },
                     &p);
    if (st == KVR_OK) {
        *doc = prediction_json(*scheme, &geo, o, &p);
        st = *doc ? add_phases(*doc, known ? &config : NULL, &p, o)
                  : kvr_fail(KVR_ENOMEM, "predict: out of memory");
        if (st == KVR_OK && o->image)
            st = add_image(*doc, known ? &config : NULL, o->geometry);
    }
    if (known)
        kvr_model_config_free(&config);
    KVR_TRY(st);
    return o->as_stored ? add_as_stored(*doc, *scheme, &geo, o) : KVR_OK;
}

static int run(const struct kvr_call *call)
{
    const struct predict_opts *o = call->opts;
    struct kvr_scheme *scheme = NULL;
    json_t *doc = NULL;
    enum kvr_status st = predict(o, &scheme, &doc);
    int code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);

    kvr_scheme_close(&scheme);
    return kvr_cli_result(doc, code, o->json, print_text);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct predict_opts, method, "method", 'm', "METHOD", NULL,
                 "method that compresses the KV cache: NAME (as its own paper intends it) or "
                 "NAME@study (as the 33-method study implemented it); required"),
    KVR_ARG_TEXT(struct predict_opts, geometry, "geometry", 'g', "NAME|FILE", NULL,
                 "model whose layer and head sizes are used: wan-1.3b, wan-14b, wan-5b, the name "
                 "of a model folder, or the path of a config.json; required"),
    KVR_ARG_INT(struct predict_opts, frames, "frames", 'n', "N", NULL, 1, 1000000,
                "number of pixel frames of the video; the default is the model's attention window"),
    KVR_ARG_TEXT(
        struct predict_opts, size, "size", 0, "HxW", NULL,
        "height x width of the video in pixels, such as 720x1280; the default is the model's"),
    KVR_ARG_INT(struct predict_opts, window, "window", 'w', "N", "0", -1, 100000,
                "number of newest latent frames that attention sees (affects FLOPs only); 0 means "
                "all, and -1 the model's own window, which is the default of `generate`"),
    KVR_ARG_TEXT(struct predict_opts, decoder, "decoder", 0, "NAME", "vae",
                 "decoder of Wan's latents to pixels: vae (Wan's own) or taehv (a smaller, "
                 "approximate decoder)"),
    KVR_ARG_TEXT(
        struct predict_opts, decoder_compute, "decoder-compute", 0, "TYPE", "f32",
        "compute type of the decoder (in a sweep: setting decoder_compute): " KVR_COMPUTE_HELP),
    KVR_ARG_FLAG(struct predict_opts, image, "image", 0,
                 "add memory and operations of the image encoder, for a video whose first frame is "
                 "a given image"),
    KVR_ARG_INT(struct predict_opts, layers, "layers", 0, "N", "0", 0, 1024,
                "use only the first N layers of the model, at most 1024; 0 means all"),
    KVR_ARG_LIST(struct predict_opts, set, "option", 'O', "KEY=VALUE",
                 "set an option of the method, as in bits=3 (repeatable); `kvreel show METHOD` "
                 "lists options"),
    KVR_ARG_TEXT(struct predict_opts, path, "path", 0, "NAME", "staged",
                 "how attention reads the compressed tokens: staged (dequantized block by block), "
                 "fused (dequantized inside the attention loop), dense (an uncompressed copy of "
                 "all tokens) or decoded (a BF16 copy, computed as in the 33-method study)"),
    KVR_ARG_TEXT(struct predict_opts, device, "device", 0, "NAME", "cpu",
                 "device that stores the cache and the weights: " KVR_DEVICE_HELP
                 "; emulated runs the CUDA kernels on the CPU"),
    KVR_ARG_TEXT(struct predict_opts, compute, "compute", 0, "TYPE", "f32",
                 "compute type of linear layers, and the type in which the device stores their "
                 "weights: " KVR_COMPUTE_HELP),
    KVR_ARG_TEXT(struct predict_opts, as_stored, "as-stored", 0, "WHO", NULL,
                 "`study`: also predict the peak memory of the 33-method study's code, from the "
                 "tensor types in which it stored the cache"),
    KVR_ARG_FLAG(struct predict_opts, json, "json", 0, "print the predicted bytes as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_predict = {
    .name = "predict",
    .summary = "predict the cache bytes and peak memory of a method on a model",
    .usage = "-m METHOD[@study] --geometry NAME|FILE --frames N [options]",
    .examples = "  kvreel predict -m RTN_INT4 --geometry wan-1.3b --frames 165\n"
                "  kvreel predict -m FLOWCACHE_PRUNE_INT4@study -O layer_budget=storyeval \\\n"
                "      --geometry wan-1.3b --frames 165\n"
                "  kvreel predict -m RTN_INT4@study --geometry wan-1.3b --frames 165"
                " --as-stored study\n"
                "  kvreel predict -m KIVI_INT2 --geometry wan-14b --size 720x1280 --frames 81\n"
                "  kvreel predict -m KIVI_INT2 --geometry wan-1.3b-random --layers 2 --frames 21\n",
    .details =
        "`predict` accepts any length of video. `run` and `generate` accept whole chunks only;\n"
        "for other lengths, `predict` prints the nearest lengths that they accept.\n",
    .args = args,
    .opts_size = sizeof(struct predict_opts),
    .max_words = 0,
    .run = run,
};
