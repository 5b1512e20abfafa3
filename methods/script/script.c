/* script.c - registers a Python file as a stage and a method. Two Python processes run the file:
 * one encodes, the other decodes. */
#include "methods/script/script.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "methods/joint.h"
#include "methods/kernels/rope.h"
#include "methods/script/talk.h"

enum { MAX_OPTIONS = 16, SLOT = sizeof(double), MAX_TEXT = 160 };

/* The function encode() of the Python file may return data and a state. Their total size is at most
 * that of K and V in F32, plus this number of bytes. Data that contain K and V unchanged, with
 * names, types and shapes, are thus accepted. */
enum { DESCRIPTION = 1024 };

struct script {
    char path[KVR_PLUGIN_PATH];
    char name[64], family[64], title[MAX_TEXT], paper[MAX_TEXT], version[64];
    char opt_name[MAX_OPTIONS][64], opt_help[MAX_OPTIONS][MAX_TEXT];
    struct kvr_opt option[MAX_OPTIONS + 1]; /* the value of option i is an int or a double, at byte
                                             * offset i * SLOT of kvr_stage_job.opts */
    struct kvr_joint_ops joint;
    struct kvr_stage stage;
    struct kvr_method method;
    const struct kvr_stage *stages[2];
    const struct kvr_method *methods[2];
    struct kvr_plugin plugin;
    struct kvr_talk coder, reader; /* start when the first cache is opened; used only by that
                                    * cache's thread */
};

static struct script *script_of(const struct kvr_stage_job *job)
{
    return (struct script *)(uintptr_t)job->stage->variant;
}

bool kvr_script_is(const char *path)
{
    const size_t n = strlen(path);

    return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

/* ---- encoding and decoding ----------------------------------------------------------------- */

/* One block whose keys and values were encoded together. The data that encode() returned are the
 * codes of the keys' block, and the state is the side information of the values' block. */
struct held {
    struct kvr_joint joint; /* first */
    struct script *script;
    struct kvr_dev *dev;
    char *options; /* JSON text returned by context_text() */
    struct kvr_message coded;
};

static size_t block_bytes(const struct kvr_block_shape *s)
{
    return (size_t)s->n_tok * (size_t)s->n_heads * (size_t)s->head_dim * sizeof(float);
}

/* Returns, as JSON, the layer, head and token positions of a block, from which host.py makes the
 * argument `ctx` of encode() and decode(). The cache knows these numbers without the encoded block,
 * so they do not count as bytes of the block. */
static json_t *place_json(const struct kvr_place *p, int64_t n_tok)
{
    json_t *o, *list;
    int row = 0;

    if (p->frame_tokens <= 0 || p->frame_tokens > INT32_MAX ||
        kvr_frame_row("script", (int)p->frame_tokens, 0, &row) != KVR_OK)
        row = 0; /* unknown; host.py then treats a frame as a single row */
    o = json_pack("{s:i, s:i, s:i, s:I, s:I, s:i, s:i}", "layer", p->layer, "n_layers", p->n_layers,
                  "head0", p->head0, "tok0", (json_int_t)p->tok0, "tokens_per_frame",
                  (json_int_t)p->frame_tokens, "frames_per_chunk", p->frames_per_chunk, "row", row);
    if (!o || !p->list)
        return o;
    list = json_array();
    for (int64_t i = 0; i < n_tok; i++)
        json_array_append_new(list, json_integer(p->list[i]));
    json_object_set_new(o, "list", list);
    return o;
}

/* Returns a JSON text with a block's layer and positions (place_json) and the stage's options. The
 * caller must free the text. */
static char *context_text(const struct script *s, const struct kvr_stage_job *job)
{
    json_t *doc = place_json(&job->place, job->shape.n_tok), *o = json_object();
    const void *opts = job->opts;
    char *text;

    for (int i = 0; s->option[i].name; i++) {
        const char *at = (const char *)opts + s->option[i].offset;
        double real;
        int whole;

        memcpy(&real, at, sizeof real);
        memcpy(&whole, at, sizeof whole);
        json_object_set_new(o, s->option[i].name,
                            s->option[i].type == KVR_OPT_T_INT ? json_integer(whole)
                                                               : json_real(real));
    }
    json_object_set_new(doc, "options", o);
    text = kvr_json_text(doc, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(doc);
    return text;
}

static enum kvr_status check_finite(const struct held *h)
{
    const size_t n = block_bytes(&h->coded.shape) / sizeof(float);
    const size_t width = (size_t)h->coded.shape.n_heads * (size_t)h->coded.shape.head_dim;
    const float *x = h->joint.values.p;

    for (size_t i = 0; i < 2 * n; i++)
        if (!isfinite(x[i]))
            return kvr_fail(
                KVR_ENAN,
                "decode() returned %f in %s, token %zu, channel %zu; values must be finite",
                (double)x[i], i < n ? "k" : "v", i % n / width, i % width);
    return KVR_OK;
}

static enum kvr_status held_read(struct kvr_joint *j)
{
    struct held *h = (struct held *)j;
    const size_t n = block_bytes(&h->coded.shape);
    struct kvr_reply reply = { 0 };
    char none;
    enum kvr_status st;

    st = kvr_buf_alloc_raw(&j->values, h->dev, KVR_MEM_SCRATCH, 2 * n);
    if (st == KVR_OK) {
        reply = (struct kvr_reply){ .exactly = { j->values.p, (char *)j->values.p + n, &none },
                                    .n_exactly = { n, n, 0 } };
        st = kvr_talk_request(&h->script->reader, h->dev, &h->coded, &reply);
    }
    if (st == KVR_OK)
        st = check_finite(h);
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s: decode", h->script->path);
}

static void held_close(struct kvr_joint *j)
{
    struct held *h = (struct held *)j;

    free(h->options);
    free(h);
}

static enum kvr_status start(const struct kvr_stage_job *job)
{
    struct script *s = script_of(job);
    enum kvr_status st = KVR_OK;

    if (!s->coder.pid)
        st = kvr_talk_start(&s->coder, s->path, "encode", NULL);
    if (st == KVR_OK && !s->reader.pid)
        st = kvr_talk_start(&s->reader, s->path, "decode", NULL);
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s", s->path);
}

/* Copies the answer of encode(): its codes to the keys' block, its side information to the values'
 * block. */
static enum kvr_status store_reply(const struct kvr_reply *reply, struct kvr_dev *dev,
                                   struct kvr_stage_data *out_k, struct kvr_stage_data *out_v)
{
    KVR_TRY(kvr_buf_alloc_raw(&out_k->codes, dev, KVR_MEM_KV, reply->n[0]));
    KVR_TRY(kvr_buf_alloc_raw(&out_v->meta, dev, KVR_MEM_META, reply->n[1]));
    if (reply->n[0])
        memcpy(out_k->codes.p, reply->own.p, reply->n[0]);
    if (reply->n[1])
        memcpy(out_v->meta.p, (const char *)reply->own.p + reply->n[0], reply->n[1]);
    out_k->n_entries = (int64_t)reply->n[0];
    out_v->n_entries = (int64_t)reply->n[1];
    return KVR_OK;
}

static enum kvr_status encode(const struct kvr_stage_job *job, const float *k, const float *v,
                              struct kvr_stage_data *out_k, struct kvr_stage_data *out_v)
{
    struct script *s = script_of(job);
    const size_t n = block_bytes(&job->shape);
    struct held *h = calloc(1, sizeof *h);
    char *options = context_text(s, job);
    struct kvr_reply reply = { .most = 2 * n + DESCRIPTION };
    enum kvr_status st = KVR_OK;

    if (!h || !options) {
        free(h);
        free(options);
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", s->name);
    }
    st = kvr_talk_request(
        &s->coder, job->dev,
        &(struct kvr_message){ 0, job->shape, { options, k, v }, { strlen(options), n, n } },
        &reply);
    if (st == KVR_OK)
        st = store_reply(&reply, job->dev, out_k, out_v);
    kvr_buf_free(&reply.own);
    *h = (struct held){
        .joint = { .n_owners = 2, .read = held_read, .close = held_close },
        .script = s,
        .dev = job->dev,
        .options = options,
        .coded = { reply.form,
                   job->shape,
                   { options, out_k->codes.p, out_v->meta.p },
                   { strlen(options), out_k->codes.n_bytes, out_v->meta.n_bytes } },
    };
    out_k->joint = out_v->joint = &h->joint;
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s: encode", s->path);
}

/* ---- the stage ----------------------------------------------------------------------------- */

static enum kvr_status alone(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    (void)x, (void)out;
    return kvr_fail(KVR_EUNSUPPORTED,
                    "stage %s codes keys and values jointly: it must be the only stage of the key "
                    "codec and of the value codec, and runs only on the CPU",
                    job->stage->name);
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const int64_t d = job->shape.head_dim, width = job->shape.n_heads * d;
    struct kvr_joint *j = in->joint;
    enum kvr_status st = KVR_OK;

    (void)mode; /* always KVR_DECODE_SET (overwrite): the codec has no other stage */
#pragma omp critical(kvr_script_read)
    if (j && !j->values.p)
        st = kvr_joint_read(j);
    if (!j || st != KVR_OK) {
        for (int64_t i = 0; i < n * nh * d; i++)
            out[i] = NAN;
        return;
    }
    for (int64_t t = 0; t < n; t++)
        memcpy(out + t * nh * d,
               (const float *)j->values.p + (job->side == KVR_V ? job->shape.n_tok * width : 0) +
                   (t0 + t) * width + h0 * d,
               (size_t)(nh * d) * sizeof *out);
}

/* The encoded size depends on the data, so it is counted in entries of one byte: bytes of codes in
 * the keys' block, bytes of side information in the values' block. Both blocks together have at
 * most most_entries bytes. */
static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    if (job->side == KVR_K)
        out->entry.codes = 1;
    else
        out->entry.meta = 1;
    out->most_entries = (int64_t)(2 * block_bytes(&job->shape) + DESCRIPTION);
}

/* ---- the file's description ---------------------------------------------------------------- */

static enum kvr_status take_text(const json_t *doc, const char *key, char *out, size_t n)
{
    const char *text = json_string_value(json_object_get(doc, key));

    if (!text)
        return kvr_fail(KVR_EFORMAT, "the Python method's `%s` is missing or is not a string", key);
    if (strlen(text) >= n)
        return kvr_fail(KVR_EFORMAT,
                        "the Python method's `%s` has %zu characters, at most %zu are allowed", key,
                        strlen(text), n - 1);
    strcpy(out, text);
    return KVR_OK;
}

static enum kvr_status take_option(struct script *s, int i, const json_t *o)
{
    const bool whole = json_is_true(json_object_get(o, "whole"));
    const double def = json_number_value(json_object_get(o, "default"));
    const double min = json_number_value(json_object_get(o, "min"));
    const double max = json_number_value(json_object_get(o, "max"));

    KVR_TRY(take_text(o, "name", s->opt_name[i], sizeof s->opt_name[i]));
    KVR_TRY(take_text(o, "help", s->opt_help[i], sizeof s->opt_help[i]));
    if (!(min <= def && def <= max))
        return kvr_fail(KVR_EFORMAT, "option '%s': the default %g is not within %g..%g",
                        s->opt_name[i], def, min, max);
    if (whole && !(min >= INT32_MIN && max <= INT32_MAX))
        return kvr_fail(KVR_EFORMAT,
                        "option '%s': the range %g..%g exceeds that of 32-bit integers, %d..%d",
                        s->opt_name[i], min, max, INT32_MIN, INT32_MAX);
    s->option[i] = (struct kvr_opt){
        .name = s->opt_name[i],
        .type = whole ? KVR_OPT_T_INT : KVR_OPT_T_FLOAT,
        .offset = (size_t)i * SLOT,
        .def = def,
        .min = min,
        .max = max,
        .help = s->opt_help[i],
    };
    return KVR_OK;
}

static enum kvr_status take_description(struct script *s, const json_t *doc)
{
    const json_t *options = json_object_get(doc, "options");

    KVR_TRY(take_text(doc, "name", s->name, sizeof s->name));
    KVR_TRY(take_text(doc, "family", s->family, sizeof s->family));
    KVR_TRY(take_text(doc, "title", s->title, sizeof s->title));
    KVR_TRY(take_text(doc, "paper", s->paper, sizeof s->paper));
    KVR_TRY(take_text(doc, "version", s->version, sizeof s->version));
    if (json_array_size(options) > MAX_OPTIONS)
        return kvr_fail(KVR_EFORMAT, "the method has %zu options, at most %d are allowed",
                        json_array_size(options), MAX_OPTIONS);
    for (size_t i = 0; i < json_array_size(options); i++)
        KVR_TRY(take_option(s, (int)i, json_array_get(options, i)));
    return KVR_OK;
}

static void fill(struct script *s, size_t n_options)
{
    s->joint = (struct kvr_joint_ops){ start, encode };
    s->stage = (struct kvr_stage){
        .name = s->name,
        .title = s->title,
        .kind = KVR_STAGE_GRID,
        .options = s->option,
        .opts_size = (n_options ? n_options : 1) * SLOT,
        .variant = s,
        .layout = layout,
        .cpu = { .encode = alone, .decode = decode },
        .joint = &s->joint,
    };
    s->method = (struct kvr_method){ .name = s->name,
                                     .family = s->family,
                                     .title = s->title,
                                     .paper = s->paper,
                                     .k = s->name,
                                     .v = s->name };
    s->stages[0] = &s->stage;
    s->methods[0] = &s->method;
    s->plugin = (struct kvr_plugin){ .abi = KVR_PLUGIN_ABI,
                                     .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) },
                                     .name = s->name,
                                     .version = s->version,
                                     .stages = s->stages,
                                     .methods = s->methods };
}

static enum kvr_status query(struct script *s)
{
    struct kvr_talk t = { 0 };
    char *text = NULL;
    json_t *doc;
    enum kvr_status st;

    KVR_TRY(kvr_talk_start(&t, s->path, "describe", &text));
    kvr_talk_end(&t);
    doc = json_loads(text, 0, NULL);
    st = doc ? take_description(s, doc)
             : kvr_fail(
                   KVR_EFORMAT,
                   "the Python process described its method in a text that is not JSON: '%.60s'",
                   text);
    free(text);
    if (st == KVR_OK)
        fill(s, json_array_size(json_object_get(doc, "options")));
    json_decref(doc);
    return st;
}

enum kvr_status kvr_script_open(const char *path, const struct kvr_plugin **out)
{
    struct script *s = calloc(1, sizeof *s);
    enum kvr_status st;

    if (!s)
        return kvr_fail(KVR_ENOMEM, "plug-in %s: out of memory", path);
    strcpy(s->path, path); /* fits, because `path` is from realpath() */
    st = query(s);
    if (st != KVR_OK) {
        free(s);
        return kvr_fail_prefix(st, "plug-in %s", path);
    }
    *out = &s->plugin;
    return KVR_OK;
}

void kvr_script_close(const struct kvr_plugin *p)
{
    free((struct script *)(uintptr_t)p->stages[0]->variant);
}
