/* cmd_generate.c - `kvreel generate`: generates a video from one prompt with one method. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/generate_wan.h"
#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/files/media/media.h"
#include "harness/plan/find.h"
#include "harness/workload/learnt.h"
#include "harness/workload/pixels.h"
#include "harness/workload/truth.h"
#include "harness/workload/workload.h"

struct generate_opts {
    const char *method, *prompt, *model, *out, *truth, *tensor, *device, *compute, *schedule;
    const char *sampler, *lora, *on_switch, *image, *embedding, *name;
    uint64_t seed;
    int frames, window, fps, scale, columns, given;
    bool reference, json, quiet;
    struct kvr_arg_list set;
};

/* MAX_OUT leaves room for a file name of up to 255 bytes. */
enum { MAX_PATH = 1024, MAX_OUT = MAX_PATH - 256 };

/* State that all rollouts of a call share. */
struct studio {
    struct kvr_dev *dev;
    struct kvr_model *model;
    const char *dir;
    struct kvr_truth truth;   /* {0}: none */
    struct kvr_wan_input wan; /* {0}: RGB latents */
    int fps, scale;
};

/* One rollout and the compression scheme that it used. */
struct clip {
    struct kvr_scheme *scheme;
    struct kvr_rollout_result r;
};

static struct kvr_frames frames_of(const struct clip *c)
{
    return (struct kvr_frames){
        .n = c->r.n, .height = c->r.height, .width = c->r.width, .rgb = c->r.rgb
    };
}

static int progress(void *ctx, int done, int total)
{
    const char *name = ctx;

    if (name)
        fprintf(stderr, "kvreel: generate: %s: chunk %d of %d\n", name, done, total);
    return 0;
}

/* Opens the recorded clip of --truth: the rollout continues its first frames (--given), and the
 * rest is the ground truth. Without --truth, *t stays {0}. */
static enum kvr_status open_truth(struct kvr_truth *t, const struct generate_opts *o,
                                  const struct kvr_model_config *c)
{
    if (!o->truth && o->given)
        return kvr_fail(KVR_EINVAL,
                        "generate: --given %d needs --truth FILE, which has the recorded frames",
                        o->given);
    if (o->truth && !o->given)
        return kvr_fail(KVR_EINVAL,
                        "generate: --truth %s needs --given N, the number of recorded latent "
                        "frames that start the rollout",
                        o->truth);
    if (!o->truth)
        return KVR_OK;
    KVR_TRY(kvr_truth_open(t, o->truth, o->tensor));
    if (t->frames.n >= o->given && t->frames.height == c->latent_h &&
        t->frames.width == c->latent_w)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "generate: --truth %s: tensor '%s' has %d frames of %dx%d (width x height), "
                    "need at least %d frames (--given) of %dx%d",
                    o->truth, o->tensor, t->frames.n, t->frames.width, t->frames.height, o->given,
                    c->latent_w, c->latent_h);
}

/* Number of sink frames: the model's own, limited to `window` minus one chunk. window 0: no limit.
 */
static int sink_of(const struct kvr_model_config *c, int window)
{
    const int room = window - c->frames_per_chunk;

    return window == 0 || c->sink_frames < room ? c->sink_frames : room;
}

static enum kvr_status roll(struct clip *c, const struct studio *s, const struct generate_opts *o,
                            const char *method, const struct kvr_setting *set, int n_set)
{
    const struct kvr_model_config *config = kvr_model_config(s->model);
    const int window = o->window >= 0 ? o->window : config->window_frames;
    struct kvr_rollout_request req = {
        .model = s->model,
        .prompt = o->prompt,
        .embedding = s->wan.embedding,
        .n_embeddings = s->wan.n_embeddings,
        .first = s->wan.first,
        .keep_latents = kvr_model_vae(s->model) != NULL,
        .seed = o->seed,
        .latent_frames = o->frames,
        .window_frames = window,
        .sink_frames = sink_of(config, window),
        .path = KVR_PATH_STAGED,
        .exact = KVR_BF16,
        .given = s->truth.frames.rgb,
        .n_given = o->given,
        .shot_offset = config->shot_offset,
    };
    int on_switch;

    KVR_TRY(kvr_name_parse(&on_switch, kvr_switch_names, "generate: --on-switch", o->on_switch));
    req.on_switch = (enum kvr_on_switch)on_switch;

    KVR_TRY(kvr_scheme_open(&c->scheme, method, set, n_set));
    KVR_TRY(kvr_scheme_check(c->scheme, config->n_heads, config->dim / config->n_heads));
    KVR_TRY(kvr_rollout_run(s->dev, c->scheme, &req, progress, o->quiet ? NULL : c->scheme->name,
                            &c->r));
    if (!c->r.finite)
        return kvr_fail(KVR_ENAN,
                        "generate: method %s, seed %" PRIu64
                        ": a generated latent is NaN or infinite, so no video was written; -m BF16 "
                        "shows whether the method is the cause",
                        c->scheme->name, o->seed);
    return KVR_OK;
}

/* Decodes latents to pixels after the last rollout. The decoder opens a device of its own, so that
 * its memory is counted separately. */
static enum kvr_status decode(struct clip *c, const struct studio *s, const struct generate_opts *o)
{
    struct kvr_dev *own;
    int64_t ns;
    enum kvr_status st;

    if (!c->r.latents)
        return KVR_OK;
    KVR_TRY(kvr_dev_open(&own, kvr_dev_backend(s->dev)));
    st = kvr_rollout_pixels(own, s->model, o->frames, &c->r, &ns);
    kvr_dev_close(&own);
    return st;
}

static void clip_free(struct clip *c)
{
    kvr_rollout_result_free(&c->r);
    kvr_scheme_close(&c->scheme);
}

/* Writes to `out` [n] a path such as "DIR/RTN_INT4-seed1-a-large-red-disc". The folder's name has
 * at most MAX_OUT bytes. */
static void stem(char *out, size_t n, const struct generate_opts *o,
                 const struct kvr_scheme *scheme)
{
    size_t used = (size_t)snprintf(out, n, "%s/%s-seed%llu-", o->out, scheme->name,
                                   (unsigned long long)o->seed);
    size_t from = used, room = used + 40 < n ? used + 40 : n - 1;
    bool dash = true; /* whether the name so far ends in '-' */

    for (const char *p = o->prompt; *p && used < room; p++) {
        if (isalnum((unsigned char)*p)) {
            out[used++] = (char)tolower((unsigned char)*p);
            dash = false;
        } else if (!dash) {
            out[used++] = '-';
            dash = true;
        }
    }
    if (used == room) /* cut between words */
        while (used > from + 1 && out[used - 1] != '-')
            used--;
    while (used > 0 && out[used - 1] == '-')
        used--;
    out[used] = '\0';
}

static enum kvr_status add_path(json_t *doc, const char *key, const char *path)
{
    return json_object_set_new(doc, key, json_string(path))
               ? kvr_fail(KVR_ENOMEM, "generate: out of memory while writing the JSON result")
               : KVR_OK;
}

/* Writes frames and video of one rollout. */
static enum kvr_status write_clip(json_t *doc, const struct studio *s,
                                  const struct generate_opts *o, const struct clip *clip,
                                  const char *frames_key, const char *video_key)
{
    const struct kvr_frames f = frames_of(clip);
    char base[MAX_PATH], path[MAX_PATH + 16];

    stem(base, sizeof base, o, clip->scheme);
    snprintf(path, sizeof path, "%s.safetensors", base);
    KVR_TRY(kvr_frames_write(path, &f, s->fps));
    KVR_TRY(add_path(doc, frames_key, path));
    snprintf(path, sizeof path, "%s.mp4", base);
    KVR_TRY(kvr_mp4_write(path, &f, s->fps, s->scale));
    return add_path(doc, video_key, path);
}

/* Writes frames, videos and contact sheet, and adds their paths to `doc`. The BF16 rollout's files
 * are written, too, because `compare` and `sheet` can read them. */
static enum kvr_status write_files(json_t *doc, const struct studio *s,
                                   const struct generate_opts *o, const struct clip *ref,
                                   const struct clip *clip)
{
    struct kvr_sheet_row rows[2];
    struct kvr_frames f = frames_of(clip);
    char base[MAX_PATH], path[MAX_PATH + 16];
    int n = 0;

    KVR_TRY(kvr_mkdirs(o->out));
    stem(base, sizeof base, o, clip->scheme);
    KVR_TRY(write_clip(doc, s, o, clip, "frames_file", "video"));
    if (ref && strcmp(ref->scheme->name, clip->scheme->name) != 0)
        KVR_TRY(write_clip(doc, s, o, ref, "reference_frames_file", "reference_video"));
    if (ref)
        rows[n++] = (struct kvr_sheet_row){ .label = ref->scheme->name, .frames = frames_of(ref) };
    rows[n++] = (struct kvr_sheet_row){ .label = clip->scheme->name, .frames = f };
    snprintf(path, sizeof path, "%s.png", base);
    KVR_TRY(kvr_sheet_write(path, rows, n, o->columns < f.n ? o->columns : f.n, 2));
    return add_path(doc, "sheet", path);
}

static enum kvr_status score(json_t *doc, const struct kvr_frames *a, const struct kvr_frames *b,
                             const char *suffix)
{
    for (int i = 0; kvr_metrics[i]; i++) {
        struct kvr_metric_value v = { 0 };
        char key[64];

        if (!kvr_metrics[i]->usual)
            continue;
        KVR_TRY(kvr_metric_compute(kvr_metrics[i], a, b, &v));
        snprintf(key, sizeof key, "%s%s%s", kvr_metrics[i]->name, suffix,
                 strcmp(kvr_metrics[i]->unit, "dB") == 0 ? "_db" : "");
        json_object_set_new(doc, key, v.missing[0] ? json_null() : json_real(v.value));
        kvr_metric_value_free(&v);
    }
    return KVR_OK;
}

/* Scores the rollout against the BF16 rollout and against the ground-truth frames, where available.
 */
static enum kvr_status score_all(json_t *doc, const struct clip *ref, const struct clip *clip,
                                 const struct kvr_truth *t, int given)
{
    const struct kvr_frames b = frames_of(clip);
    const int n = t->frames.n < b.n ? t->frames.n : b.n;

    if (ref->scheme) {
        const struct kvr_frames a = frames_of(ref);

        KVR_TRY(score(doc, &a, &b, ""));
    }
    if (n > given && t->file) {
        const struct kvr_frames real = kvr_frames_from(&t->frames, given, n);
        const struct kvr_frames generated = kvr_frames_from(&b, given, n);

        KVR_TRY(score(doc, &real, &generated, "_truth"));
    }
    return KVR_OK;
}

static json_t *describe(const struct generate_opts *o, const struct clip *c)
{
    const struct kvr_cache_bytes *b = &c->r.bytes;
    json_t *tags = json_object();
    json_t *doc =
        json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:f, s:I, s:I, s:I, s:o, s:I}", "method",
                  c->scheme->name, "prompt", o->prompt, "seed", (json_int_t)o->seed, "frames",
                  c->r.n, "height", c->r.height, "width", c->r.width, "seconds",
                  (double)c->r.wall_ns * 1e-9, "bf16_bytes", (json_int_t)b->bf16, "nominal_bytes",
                  (json_int_t)b->nominal, "resident_bytes", (json_int_t)b->resident, "compression",
                  b->nominal ? json_real((double)b->bf16 / (double)b->nominal) : json_null(),
                  "peak_bytes", (json_int_t)c->r.mem.peak_total);

    for (int t = 0; t < KVR_N_MEM_TAGS; t++)
        json_object_set_new(tags, kvr_mem_tag_name(t), json_integer((json_int_t)c->r.mem.peak[t]));
    json_object_set_new(doc, "peak_by_tag", tags);
    return doc;
}

/* Runs the rollouts, then decodes them. */
static enum kvr_status roll_all(struct clip *ref, struct clip *clip, const struct studio *s,
                                const struct generate_opts *o)
{
    struct kvr_setting set[KVR_ARG_LIST_MAX];
    char buf[4096];

    KVR_TRY(kvr_cli_settings(&o->set, set, buf, sizeof buf));
    if (o->reference)
        KVR_TRY(roll(ref, s, o, kvr_reference_method, NULL, 0));
    KVR_TRY(roll(clip, s, o, o->method, set, o->set.n));
    if (clip->r.latents)
        kvr_model_shed(s->model);
    KVR_TRY(decode(ref, s, o));
    return decode(clip, s, o);
}

static enum kvr_status generate(json_t **doc, const struct generate_opts *o, struct studio *s)
{
    struct clip clip = { 0 }, ref = { 0 };
    enum kvr_status st = roll_all(&ref, &clip, s, o);

    if (st == KVR_OK) {
        *doc = describe(o, &clip);
        st = write_files(*doc, s, o, o->reference ? &ref : NULL, &clip);
    }
    if (st == KVR_OK)
        st = score_all(*doc, &ref, &clip, &s->truth, o->given);
    clip_free(&ref);
    clip_free(&clip);
    return st;
}

static void print_text(const json_t *doc)
{
    printf("%s, %lld frames in %.2f s, cache %.2fx smaller than the BF16 cache\n",
           json_string_value(json_object_get(doc, "method")),
           (long long)json_integer_value(json_object_get(doc, "frames")),
           json_number_value(json_object_get(doc, "seconds")),
           json_number_value(json_object_get(doc, "compression")));
    if (json_object_get(doc, "ssim"))
        printf("against the BF16 rollout: PSNR %.2f dB, SSIM %.4f\n",
               json_number_value(json_object_get(doc, "psnr_db")),
               json_number_value(json_object_get(doc, "ssim")));
    if (json_object_get(doc, "ssim_truth"))
        printf("against the recorded frames: PSNR %.2f dB, SSIM %.4f\n",
               json_number_value(json_object_get(doc, "psnr_truth_db")),
               json_number_value(json_object_get(doc, "ssim_truth")));
    printf("video   %s\nsheet   %s\nframes  %s\n", json_string_value(json_object_get(doc, "video")),
           json_string_value(json_object_get(doc, "sheet")),
           json_string_value(json_object_get(doc, "frames_file")));
    if (json_object_get(doc, "reference_video"))
        printf("BF16 video   %s\nBF16 frames  %s\n",
               json_string_value(json_object_get(doc, "reference_video")),
               json_string_value(json_object_get(doc, "reference_frames_file")));
}

static enum kvr_status check_counts(const struct generate_opts *o, const struct kvr_model_config *c)
{
    const int chunk = c->frames_per_chunk;

    KVR_TRY(kvr_cli_whole_chunks("generate", "--frames", o->frames, chunk));
    KVR_TRY(kvr_cli_whole_chunks("generate", "--given", o->given, chunk));
    if (o->given >= o->frames)
        return kvr_fail(
            KVR_EINVAL,
            "generate: --given %d: must be less than --frames %d (both are latent frames)",
            o->given, o->frames);
    return kvr_cli_window("generate", o->window, chunk);
}

/* Checks the command's options against the model config c, so that wrong options fail before
 * open_model() reads gigabytes of weights. */
static enum kvr_status check_model(const struct generate_opts *o, const struct kvr_model_config *c,
                                   const char *dir)
{
    KVR_TRY(kvr_wan_check(c, dir, o->image));
    if ((o->truth || o->given) && !c->latent_is_rgb)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "generate: --truth and --given: model %s has VAE latents, but only models with RGB "
            "latents, such as nano, can continue given frames; --image gives a first frame to "
            "models with Wan 2.2's latents",
            o->model);
    if (o->embedding && c->latent_is_rgb)
        return kvr_fail(KVR_EINVAL,
                        "generate: --embedding %s: model %s reads the prompt's words and no "
                        "embedding; remove --embedding",
                        o->embedding, o->model);
    return check_counts(o, c);
}

static enum kvr_status open_model(struct studio *s, const struct generate_opts *o)
{
    struct kvr_model_use use = { .schedule = o->schedule, .sampler = o->sampler, .lora = o->lora };
    struct kvr_model_config c;
    char path[MAX_PATH + 16];
    enum kvr_status st;

    KVR_TRY(kvr_compute_parse(o->compute, &use.compute));
    snprintf(path, sizeof path, "%s/config.json", s->dir);
    KVR_TRY(kvr_model_config_read(&c, path));
    st = check_model(o, &c, s->dir);
    kvr_model_config_free(&c);
    KVR_TRY(st);
    return kvr_model_open_as(&s->model, s->dev, s->dir, &use);
}

/* Warns about the first prompt word that is valid but was not in the model's training prompts. */
static enum kvr_status warn_untrained_word(const struct kvr_model_config *c, const char *dir,
                                           const char *text, int frames)
{
    const char *lacks;
    struct kvr_prompt p;
    struct kvr_learnt l;

    KVR_TRY(kvr_prompt_parse(c, text, frames / c->frames_per_chunk, &p));
    KVR_TRY(kvr_learnt_read(&l, c, dir));
    lacks = kvr_learnt_lacks(&l, c, &p);
    if (lacks)
        fprintf(stderr,
                "kvreel: generate: model %s has not learnt '%s' of the prompt, because no training "
                "prompt had it; `kvreel vocabulary --model %s` lists learnt words\n",
                kvr_path_base(dir), lacks, dir);
    kvr_learnt_free(&l);
    return KVR_OK;
}

/* Opens the rollouts' input: words and frames, or embeddings and a first frame. */
static enum kvr_status open_input(struct studio *s, const struct generate_opts *o)
{
    const struct kvr_model_config *c = kvr_model_config(s->model);
    const struct kvr_wan_source from = { .prompt = o->prompt,
                                         .embedding = o->embedding,
                                         .name = o->name,
                                         .image = o->image,
                                         .device = o->device,
                                         .out = o->out,
                                         .n_chunks = o->frames / c->frames_per_chunk };

    s->fps = o->fps ? o->fps : c->latent_is_rgb ? 8 : 16;
    s->scale = o->scale ? o->scale : c->latent_is_rgb ? 6 : 1;
    if (!c->latent_is_rgb)
        return kvr_wan_input_open(&s->wan, &from, s->dev, s->model, s->dir);
    KVR_TRY(warn_untrained_word(c, s->dir, o->prompt, o->frames));
    return open_truth(&s->truth, o, c);
}

static int run(const struct kvr_call *call)
{
    const struct generate_opts *o = call->opts;
    char dir[MAX_PATH];
    struct studio s = { .dir = dir };
    json_t *doc = NULL;
    enum kvr_status st = KVR_OK;
    int code;

    if (!o->prompt)
        st = kvr_fail(KVR_EINVAL, "generate: --prompt TEXT is missing; give one, such as -p 'a "
                                  "large red disc bounces over a plain blue background'");
    else if (strlen(o->out) > MAX_OUT)
        st = kvr_fail(KVR_EINVAL,
                      "generate: --out has %zu bytes, need at most %d; use a shorter path",
                      strlen(o->out), MAX_OUT);
    if (st == KVR_OK)
        st = kvr_find_path(&kvr_find_model, o->model, NULL, dir, sizeof dir);
    if (st == KVR_OK)
        st = kvr_dev_open_named(&s.dev, o->device);
    if (st == KVR_OK)
        st = open_model(&s, o);
    if (st == KVR_OK)
        st = open_input(&s, o);
    if (st == KVR_OK)
        st = generate(&doc, o, &s);
    if (st == KVR_OK)
        json_object_set_new(doc, "device", json_string(kvr_dev_name(s.dev)));
    if (st == KVR_OK)
        json_object_set_new(doc, "compute", json_string(o->compute));
    if (st == KVR_OK && o->image)
        json_object_set_new(doc, "image", json_string(o->image));
    code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    kvr_truth_close(&s.truth);
    kvr_wan_input_close(&s.wan);
    kvr_model_close(&s.model);
    kvr_dev_close(&s.dev);
    return kvr_cli_result(doc, code, o->json, print_text);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(
        struct generate_opts, method, "method", 'm', "METHOD", "BF16",
        "method that compresses the KV cache: NAME (as its own paper intends it) or NAME@study (as "
        "the 33-method study implemented it); `kvreel list methods` lists names"),
    KVR_ARG_TEXT(struct generate_opts, prompt, "prompt", 'p', "TEXT", NULL,
                 "text that describes the video (required); `kvreel vocabulary` lists the words "
                 "that model nano knows"),
    KVR_ARG_TEXT(struct generate_opts, device, "device", 0, "NAME", "cpu",
                 "device that runs the model: " KVR_DEVICE_HELP
                 "; emulated runs the CUDA kernels on the CPU"),
    KVR_ARG_TEXT(struct generate_opts, compute, "compute", 0, "TYPE", "f32",
                 "compute type of linear layers: " KVR_COMPUTE_HELP),
    KVR_ARG_TEXT(
        struct generate_opts, sampler, "sampler", 0, "NAME", "model",
        "diffusion sampler: renoise (new noise after each step), unipc (UniPC solver), unipc:STEPS "
        "or unipc:STEPS:SHIFT (number of steps, timestep shift); `model` means the model's own"),
    KVR_ARG_TEXT(
        struct generate_opts, lora, "lora", 0, "FILE", NULL,
        "LoRA adapter to merge into the weights, instead of the adapter in the model's config"),
    KVR_ARG_TEXT(
        struct generate_opts, on_switch, "on-switch", 0, "NAME", "keep",
        "what a change of the prompt within the video does to the KV cache: keep (nothing), "
        "recache (recompute it with the new prompt) or reset (drop all tokens but the sink)"),
    KVR_ARG_TEXT(struct generate_opts, schedule, "schedule", 0, "NAME|STEPS", "model",
                 "denoising schedule (docs/wan.md): self-forcing, self-forcing-unwarped, "
                 "flashdreams, lightx2v or decreasing timesteps, such as 1000-750-500-250; `model` "
                 "means the model's own"),
    KVR_ARG_LIST(struct generate_opts, set, "option", 'O', "KEY=VALUE",
                 "set an option of the method, as in bits=3 (repeatable); `kvreel show METHOD` "
                 "lists options"),
    KVR_ARG_U64(struct generate_opts, seed, "seed", 's', "N", "1",
                "seed of the random generator of the initial noise"),
    KVR_ARG_INT(struct generate_opts, frames, "frames", 'n', "N", "42", 1, 100000,
                "number of latent frames to generate, a multiple of the model's frames per chunk"),
    KVR_ARG_INT(struct generate_opts, window, "window", 'w', "N", "-1", -1, 100000,
                "number of newest latent frames that attention sees; 0 means all, -1 the model's "
                "own window"),
    KVR_ARG_TEXT(struct generate_opts, model, "model", 0, "NAME", "nano",
                 "name of a model (`kvreel list models`) or path of a model folder"),
    KVR_ARG_TEXT(struct generate_opts, out, "out", 'o', "DIR", "out/generate",
                 "folder for the video, its raw frames and the contact sheet"),
    KVR_ARG_FLAG(struct generate_opts, reference, "reference", 'r',
                 "also generate the BF16 rollout; print PSNR and SSIM against it, and show both on "
                 "the contact sheet"),
    KVR_ARG_TEXT(struct generate_opts, truth, "truth", 0, "FILE", NULL,
                 "safetensors file with recorded RGB frames that the rollout continues, a U8 "
                 "tensor [frames, height, width, 3]"),
    KVR_ARG_TEXT(struct generate_opts, tensor, "tensor", 0, "NAME", "frames",
                 "name of the tensor in the file of --truth"),
    KVR_ARG_INT(struct generate_opts, given, "given", 0, "N", "0", 0, 100000,
                "start with the first N latent frames of --truth, a multiple of the frames per "
                "chunk; PSNR and SSIM compare the later frames of --truth with the generated ones"),
    KVR_ARG_TEXT(struct generate_opts, image, "image", 0, "FILE", NULL,
                 "image of the video's size, in any format that FFmpeg decodes, that becomes the "
                 "first frame; only for models "
                 "with Wan 2.2's latents, such as longlive-2"),
    KVR_ARG_TEXT(struct generate_opts, embedding, "embedding", 0, "FILE", NULL,
                 "file with the prompt's embedding (from `kvreel embed`), instead of the model's "
                 "text encoder"),
    KVR_ARG_TEXT(struct generate_opts, name, "embedding-tensor", 0, "NAME", "prompt",
                 "name of the tensor in the file of --embedding; if the prompt changes within the "
                 "video, its successive texts have the tensors NAME.1, NAME.2, ..."),
    KVR_ARG_INT(struct generate_opts, fps, "fps", 0, "N", "0", 0, 240,
                "frames per second of the MP4, at most 240; 0 means 16, or 8 if the model's "
                "latents are RGB"),
    KVR_ARG_INT(struct generate_opts, scale, "scale", 0, "N", "0", 0, 64,
                "integer factor, at most 64, by which the MP4's frames are enlarged; 0 means 1, or "
                "6 if the model's latents are RGB"),
    KVR_ARG_INT(struct generate_opts, columns, "columns", 0, "N", "8", 1, 64,
                "number of frames per row of the contact sheet, 1 to 64"),
    KVR_ARG_FLAG(struct generate_opts, json, "json", 0, "print results and file names as JSON"),
    KVR_ARG_FLAG(struct generate_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_generate = {
    .name = "generate",
    .summary = "generate a video and a contact sheet from one prompt",
    .usage = "-p 'PROMPT' [-m METHOD] [options]",
    .examples =
        "  kvreel generate -p 'a large red disc bounces over a plain blue background'\n"
        "  kvreel generate -m RTN_INT2 --reference -p 'a large green square drifts left'\n"
        "  kvreel generate -m RTN_INT4 -O group=32 --seed 7 -p 'a large white ring orbits'\n"
        "  kvreel generate --truth models/nano/truth.safetensors --tensor ct03 --given 6 \\\n"
        "      -p 'a large cyan ring orbits over a checkered red background'\n"
        "  kvreel generate --model longlive-2 -n 32 --image dog.png -p 'the dog runs across the "
        "grass'\n",
    .args = args,
    .opts_size = sizeof(struct generate_opts),
    .max_words = 0,
    .run = run,
};
