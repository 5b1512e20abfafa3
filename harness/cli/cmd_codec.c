/* cmd_codec.c - `kvreel codec`: compresses keys and values with a method in the cache of one layer,
 * and decompresses them. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "harness/cache/fingerprint.h"
#include "harness/cache/layer.h"
#include "harness/cache/mirror.h"
#include "harness/cli/cli.h"
#include "harness/core/dtype.h"
#include "harness/core/rng.h"
#include "harness/core/safetensors.h"
#include "harness/device/array.h"
#include "harness/device/names.h"

struct codec_opts {
    const char *method, *out, *device, *draw;
    bool json, keep_nonfinite;
    struct kvr_arg_list in, set;
};

/* Settings of the command itself, which -O accepts besides the method's own options. */
struct where {
    int layers, layer, tokens_per_frame, frames_per_chunk, active_tokens;
};
static const struct kvr_opt where_options[] = {
    KVR_OPT_INT(struct where, layers, 1, 1, 4096, "number of layers of the model"),
    KVR_OPT_INT(struct where, layer, 0, 0, 4095, "index of the layer to use, from 0"),
    KVR_OPT_INT(struct where, tokens_per_frame, 1560, 1, INT_MAX,
                "number of tokens per latent frame"),
    KVR_OPT_INT(struct where, frames_per_chunk, 3, 1, 4096,
                "number of latent frames that are denoised together (a chunk)"),
    KVR_OPT_INT(struct where, active_tokens, 0, 0, INT_MAX,
                "use only this number of tokens from the start of each IN; 0 means all"),
    { 0 },
};

enum { MAX_EXTENT = 1 << 16 }; /* maximum number of heads, and of channels per head */

struct job {
    const struct codec_opts *o;
    struct where where;
    struct kvr_scheme *scheme;
    struct kvr_dev *dev;
    struct kvr_layer layer;
    struct kvr_layer_scratch scratch;
    struct kvr_array k, v;       /* the last input, in host memory */
    struct kvr_buf dev_k, dev_v; /* copies of k and v in device memory */
    struct kvr_array out_k, out_v;
    int64_t nonfinite_in, nonfinite_out;
    char stored[KVR_SHA256_HEX]; /* fingerprint.h */
};

static int64_t n_tokens(const struct job *j)
{
    return j->k.t.shape[0];
}

static enum kvr_status check_tensor(const char *path, const char *name, const struct kvr_tensor *t)
{
    char shape[128];

    kvr_shape_text(t->shape, t->n_dims, shape, sizeof shape);
    if (t->dtype != KVR_F32 && t->dtype != KVR_F16 && t->dtype != KVR_BF16)
        return kvr_fail(KVR_EFORMAT, "%s: tensor %s: dtype is %s, need F32, F16 or BF16", path,
                        name, kvr_dtype_name(t->dtype));
    if (t->n_dims != 3)
        return kvr_fail(KVR_EFORMAT, "%s: tensor %s: shape is %s, need [tokens, heads, dim]", path,
                        name, shape);
    if (t->shape[0] < 1 || t->shape[0] > INT32_MAX)
        return kvr_fail(KVR_EFORMAT, "%s: tensor %s: has %lld tokens, need 1..%d", path, name,
                        (long long)t->shape[0], INT32_MAX);
    for (int i = 1; i < 3; i++)
        if (t->shape[i] < 1 || t->shape[i] > MAX_EXTENT)
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor %s: shape is %s, heads and dim must be within 1..%d", path,
                            name, shape, MAX_EXTENT);
    return KVR_OK;
}

static enum kvr_status read_one(struct job *j, struct kvr_st *f, const char *path,
                                const struct kvr_tensor *k, struct kvr_array *to, const char *name)
{
    struct kvr_tensor t;
    char have[128], want[128];

    KVR_TRY(kvr_st_get(f, name, &t));
    KVR_TRY(check_tensor(path, name, &t));
    if (memcmp(t.shape, k->shape, 3 * sizeof *t.shape) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor v has shape %s, but k has %s: shapes must be equal", path,
                        kvr_shape_text(t.shape, 3, have, sizeof have),
                        kvr_shape_text(k->shape, 3, want, sizeof want));
    kvr_array_free(to);
    return kvr_array_read(to, kvr_dev_host(j->dev), KVR_MEM_IO, f, name, 3, t.shape);
}

static enum kvr_status read_pair(struct job *j, struct kvr_st *f, const char *path)
{
    struct kvr_tensor k;

    KVR_TRY(kvr_st_get(f, "k", &k));
    KVR_TRY(check_tensor(path, "k", &k));
    if (j->k.t.data && (k.shape[1] != j->k.t.shape[1] || k.shape[2] != j->k.t.shape[2]))
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor k has %lld heads of %lld channels, but the previous file has "
                        "%lld heads of %lld channels",
                        path, (long long)k.shape[1], (long long)k.shape[2],
                        (long long)j->k.t.shape[1], (long long)j->k.t.shape[2]);
    KVR_TRY(read_one(j, f, path, &k, &j->k, "k"));
    return read_one(j, f, path, &k, &j->v, "v");
}

/* Returns the number of non-finite values; *first is the index of the first non-finite value. */
static int64_t count_nonfinite(const struct kvr_array *a, int64_t *first)
{
    const float *x = a->t.data;
    const int64_t n = kvr_tensor_count(&a->t);
    int64_t count = 0;

    *first = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) {
            if (!count++)
                *first = i;
        }
    return count;
}

static enum kvr_status check_finite(struct job *j, const char *path)
{
    const struct kvr_array *side[] = { &j->k, &j->v };
    const int64_t heads = j->k.t.shape[1], dim = j->k.t.shape[2];

    j->nonfinite_in = 0;
    for (int i = 0; i < 2; i++) {
        int64_t first, n = count_nonfinite(side[i], &first);

        j->nonfinite_in += n;
        if (n && !j->o->keep_nonfinite)
            return kvr_fail(KVR_EINVAL,
                            "%s: tensor %c: %lld values are NaN or infinite, the first (%g) at "
                            "token %lld, head %lld, channel %lld; --keep-nonfinite encodes them",
                            path, "kv"[i], (long long)n,
                            (double)((const float *)side[i]->t.data)[first],
                            (long long)(first / dim / heads), (long long)(first / dim % heads),
                            (long long)(first % dim));
    }
    return KVR_OK;
}

static enum kvr_status read_in(struct job *j, const char *path)
{
    struct kvr_st *f;
    enum kvr_status st;

    KVR_TRY(kvr_st_open(&f, path));
    st = read_pair(j, f, path);
    kvr_st_close(&f);
    return st == KVR_OK ? check_finite(j, path) : st;
}

/* Approximates a normal variate by the sum of twelve uniform variates with mean 0. A sum gives the
 * same bits on every machine; log() and cos() of different C libraries may not. Every eighth
 * channel is scaled by 8 and the next one is offset by 4, which gives quantizers outlier channels
 * and non-zero means. */
static void draw_one(float *x, int64_t n_tok, int64_t width, uint32_t side)
{
    enum { TERMS = 12 };
    float u[TERMS];

    for (int64_t i = 0; i < n_tok * width; i++) {
        const int64_t c = i % width % 8;
        float sum = -TERMS / 2;

        kvr_uniform(u, TERMS, 0, KVR_RNG_SYNTHETIC, 16 + side, 0, (uint64_t)i * TERMS);
        for (int k = 0; k < TERMS; k++)
            sum += u[k];
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16((c == 0 ? 8 * sum : sum) + (c == 1 ? 4 : 0)));
    }
}

/* Generates random keys and values of the shape "TOKENSxHEADSxDIM" given by --draw. */
static enum kvr_status draw_in(struct job *j)
{
    struct kvr_array *const to[] = { &j->k, &j->v };
    int64_t shape[3];
    int end = 0;

    if (sscanf(j->o->draw, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%n", &shape[0], &shape[1], &shape[2],
               &end) != 3 ||
        j->o->draw[end] || shape[0] < 1 || shape[0] > 1 << 20 || shape[1] < 1 || shape[1] > 64 ||
        shape[2] < 1 || shape[2] > 1024)
        return kvr_fail(KVR_EINVAL,
                        "--draw '%s': need TOKENSxHEADSxDIM with 1..%d tokens, 1..64 heads and "
                        "1..1024 channels per head, for example 4680x12x128",
                        j->o->draw, 1 << 20);
    for (uint32_t i = 0; i < 2; i++) {
        KVR_TRY(kvr_array_alloc(to[i], kvr_dev_host(j->dev), KVR_MEM_IO, KVR_F32, 3, shape));
        draw_one(to[i]->t.data, shape[0], shape[1] * shape[2], i);
    }
    return KVR_OK;
}

static enum kvr_status open_layer(struct job *j)
{
    const struct kvr_layer_geometry geo = {
        .layer = j->where.layer,
        .n_layers = j->where.layers,
        .n_heads = (int)j->k.t.shape[1],
        .head_dim = (int)j->k.t.shape[2],
        .tokens_per_frame = j->where.tokens_per_frame,
        .frames_per_chunk = j->where.frames_per_chunk,
        .capacity = n_tokens(j),
        .alone = true,
    };

    KVR_TRY(kvr_scheme_check(j->scheme, geo.n_heads, geo.head_dim));
    return kvr_layer_open(&j->layer, j->dev, j->scheme, &geo, &j->scratch, false);
}

/* Sets *x to an address of `a` that the device can read; a device with its own memory gets a copy.
 */
static enum kvr_status on_device(struct job *j, const struct kvr_array *a, struct kvr_buf *b,
                                 const float **x)
{
    const size_t n = (size_t)kvr_tensor_count(&a->t) * sizeof(float);

    *x = a->t.data;
    if (kvr_dev_in_host(j->dev))
        return KVR_OK;
    KVR_TRY(kvr_buf_reserve(b, j->dev, KVR_MEM_IO, n));
    *x = b->p;
    return kvr_dev_put(j->dev, b->p, a->t.data, n);
}

/* Stores the tokens that the layer does not have yet, one chunk per call. Chunks begin at multiples
 * of the chunk length, so a later input completes a partial last chunk. */
static enum kvr_status commit(struct job *j, const float *k, const float *v, int64_t active)
{
    const int64_t chunk = (int64_t)j->where.tokens_per_frame * j->where.frames_per_chunk;
    const size_t width = (size_t)j->layer.geo.n_heads * (size_t)j->layer.geo.head_dim;

    while (j->layer.n_active < active) {
        const int64_t t = j->layer.n_active, end = (t / chunk + 1) * chunk;

        KVR_TRY(kvr_layer_commit(&j->layer, k + (size_t)t * width, v + (size_t)t * width, t,
                                 (end < active ? end : active) - t));
    }
    return KVR_OK;
}

static enum kvr_status pass(struct job *j, const char *path)
{
    int64_t active = j->where.active_tokens;
    const float *k, *v;

    KVR_TRY(path ? read_in(j, path) : draw_in(j));
    if (!j->layer.dev)
        KVR_TRY(open_layer(j));
    if (!active || active > n_tokens(j))
        active = n_tokens(j);
    if (active < j->layer.n_active)
        return kvr_fail(KVR_EINVAL,
                        "%s: the cache has %lld active tokens, fewer than in the previous file "
                        "(%lld); each file must have at least as many tokens as the previous one",
                        path ? path : "", (long long)active, (long long)j->layer.n_active);
    j->layer.geo.capacity = n_tokens(j);
    KVR_TRY(on_device(j, &j->k, &j->dev_k, &k));
    KVR_TRY(on_device(j, &j->v, &j->dev_v, &v));
    KVR_TRY(kvr_scheme_is_study(j->scheme) ? kvr_layer_recode(&j->layer, k, v, active)
                                           : commit(j, k, v, active));
    return kvr_dev_sync(j->dev);
}

static enum kvr_status decode(struct job *j)
{
    struct kvr_layer host = { 0 };
    enum kvr_status st = KVR_OK;
    const bool in_host = kvr_dev_in_host(j->dev);

    if (!in_host)
        st = kvr_layer_mirror(&j->layer, &host);
    if (st == KVR_OK)
        st = kvr_layer_read_joint(&j->layer, NULL);
    if (st == KVR_ENAN && j->o->keep_nonfinite) /* counted below */
        st = KVR_OK;
    if (st == KVR_OK)
        kvr_layer_dense(in_host ? &j->layer : &host, 0, n_tokens(j), j->out_k.t.data,
                        j->out_v.t.data, NULL);
    if (st == KVR_OK)
        st = kvr_layer_fingerprint(in_host ? &j->layer : &host, j->stored);
    if (!in_host)
        kvr_layer_close(&host);
    return st;
}

static enum kvr_status write_out(struct job *j)
{
    const char *const metadata[] = { "method", j->scheme->name, NULL };
    int64_t first;

    struct kvr_dev *host = kvr_dev_host(j->dev);

    KVR_TRY(kvr_array_alloc(&j->out_k, host, KVR_MEM_IO, KVR_F32, 3, j->k.t.shape));
    KVR_TRY(kvr_array_alloc(&j->out_v, host, KVR_MEM_IO, KVR_F32, 3, j->k.t.shape));
    KVR_TRY(decode(j));
    j->nonfinite_out = count_nonfinite(&j->out_k, &first) + count_nonfinite(&j->out_v, &first);

    const struct kvr_st_item items[] = { { "k", j->out_k.t }, { "v", j->out_v.t } };

    return !j->o->out ? KVR_OK : kvr_st_write(j->o->out, items, 2, metadata);
}

/* Mean squared difference of two arrays; JSON null if the mean is not finite. */
static json_t *mse_json(const struct kvr_array *a, const struct kvr_array *b)
{
    const float *x = a->t.data, *y = b->t.data;
    const int64_t n = kvr_tensor_count(&a->t);
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)y[i];

        sum += d * d;
    }
    return isfinite(sum) ? json_real(sum / (double)n) : json_null();
}

static json_t *report(const struct job *j)
{
    const size_t nominal = kvr_layer_nominal(&j->layer);
    const size_t bf16 = 2 * (size_t)kvr_tensor_count(&j->k.t) * sizeof(kvr_bf16);
    size_t codes;

    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:s}",
        "method", j->scheme->name, "device", kvr_dev_name(j->dev), "reading",
        kvr_scheme_reading(j->scheme), "tokens", (json_int_t)n_tokens(j), "heads",
        (json_int_t)j->k.t.shape[1], "dim", (json_int_t)j->k.t.shape[2], "active_tokens",
        (json_int_t)j->layer.n_active, "bf16_bytes", (json_int_t)bf16, "nominal_bytes",
        (json_int_t)nominal, "resident_bytes", (json_int_t)kvr_layer_resident(&j->layer, &codes),
        "compression", nominal ? json_real((double)bf16 / (double)nominal) : json_null(), "k_mse",
        mse_json(&j->out_k, &j->k), "v_mse", mse_json(&j->out_v, &j->v), "nonfinite_in",
        (json_int_t)j->nonfinite_in, "nonfinite_out", (json_int_t)j->nonfinite_out, "stored_sha256",
        j->stored);
}

/* Splits the -O settings: settings named in where_options configure the command, all others
 * configure the method. */
static enum kvr_status settle(struct job *j)
{
    struct kvr_setting set[KVR_ARG_LIST_MAX];
    char buf[4096];
    int n = 0;

    if (!j->o->method || !(j->o->draw || (j->o->in.n && j->o->out)))
        return kvr_fail(KVR_EINVAL,
                        "codec: needs --method with --in and --out, or --method with --draw");
    if (j->o->draw && j->o->in.n)
        return kvr_fail(KVR_EINVAL,
                        "codec: both --draw %s and --in %s are given; use only one of them",
                        j->o->draw, j->o->in.v[0]);
    KVR_TRY(kvr_cli_settings(&j->o->set, set, buf, sizeof buf));
    kvr_opts_defaults(where_options, &j->where);
    for (int i = 0; i < j->o->set.n; i++)
        if (kvr_opts_find(where_options, set[i].name))
            KVR_TRY(kvr_opts_set(where_options, &j->where, set[i].name, set[i].value));
        else
            set[n++] = set[i];
    if (j->where.layer >= j->where.layers)
        return kvr_fail(KVR_EINVAL, "codec: -O layer=%d is not allowed, need 0..%d (-O layers=%d)",
                        j->where.layer, j->where.layers - 1, j->where.layers);
    return kvr_scheme_open(&j->scheme, j->o->method, set, n);
}

static void job_close(struct job *j)
{
    if (j->layer.dev)
        kvr_layer_close(&j->layer);
    kvr_layer_scratch_free(&j->scratch);
    kvr_buf_free(&j->dev_k);
    kvr_buf_free(&j->dev_v);
    kvr_array_free(&j->k);
    kvr_array_free(&j->v);
    kvr_array_free(&j->out_k);
    kvr_array_free(&j->out_v);
    kvr_scheme_close(&j->scheme);
    kvr_dev_close(&j->dev);
}

static void print_text(const json_t *doc)
{
    static const char *const keys[] = { "tokens",        "heads",         "dim",
                                        "bf16_bytes",    "nominal_bytes", "resident_bytes",
                                        "compression",   "k_mse",         "v_mse",
                                        "nonfinite_out", "stored_sha256", NULL };

    printf("%s (%s version, device %s)\n", json_string_value(json_object_get(doc, "method")),
           json_string_value(json_object_get(doc, "reading")),
           json_string_value(json_object_get(doc, "device")));
    for (int i = 0; keys[i]; i++) {
        const json_t *v = json_object_get(doc, keys[i]);

        if (json_is_string(v))
            printf("  %-15s %s\n", keys[i], json_string_value(v));
        else if (json_is_null(v))
            printf("  %-15s not a finite number\n", keys[i]);
        else
            printf("  %-15s %.12g\n", keys[i], json_number_value(v));
    }
}

static int run(const struct kvr_call *call)
{
    struct job j = { .o = call->opts };
    json_t *doc = NULL;
    enum kvr_status st = settle(&j);
    int code;

    if (st == KVR_OK)
        st = kvr_dev_open_named(&j.dev, j.o->device);
    for (int i = 0; i < j.o->in.n && st == KVR_OK; i++)
        st = pass(&j, j.o->in.v[i]);
    if (st == KVR_OK && j.o->draw)
        st = pass(&j, NULL);
    if (st == KVR_OK)
        st = write_out(&j);
    if (st == KVR_OK)
        doc = report(&j);
    job_close(&j);
    code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    return kvr_cli_result(doc, code, j.o->json, print_text);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct codec_opts, method, "method", 'm', "METHOD", NULL,
                 "NAME (the method as its paper intends it) or NAME@study (as the 33-method study "
                 "implemented it); names: kvreel list methods"),
    KVR_ARG_LIST(struct codec_opts, in, "in", 'i', "FILE",
                 "safetensors file with tensors k and v, [tokens, heads, dim]; give this option "
                 "again for each later state of the same KV cache"),
    KVR_ARG_TEXT(struct codec_opts, out, "out", 'o', "FILE", NULL,
                 "output file: a safetensors file with the decoded tensors k and v in F32"),
    KVR_ARG_TEXT(struct codec_opts, draw, "draw", 0, "TxHxD", NULL,
                 "instead of --in: random keys and values with T tokens, H heads and D channels, "
                 "equal on every machine"),
    KVR_ARG_LIST(struct codec_opts, set, "option", 'O', "KEY=VALUE",
                 "set an option of the method, or an option listed below"),
    KVR_ARG_TEXT(struct codec_opts, device, "device", 0, "NAME", "cpu", KVR_DEVICE_HELP),
    KVR_ARG_FLAG(struct codec_opts, keep_nonfinite, "keep-nonfinite", 0,
                 "encode NaN and infinity instead of refusing them, and report their number"),
    KVR_ARG_FLAG(struct codec_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_codec = {
    .name = "codec",
    .summary = "encode and decode the keys and values in a file as one layer of a method's cache",
    .usage = "-m METHOD[@study] -i IN.safetensors [-i NEXT ...] -o OUT.safetensors [options]\n"
             "-m METHOD[@study] --draw TxHxD [options]",
    .examples =
        "  kvreel codec -m RTN_INT4 -i kv.safetensors -o decoded.safetensors\n"
        "  kvreel codec -m FLOWCACHE_PRUNE_INT4@study -i s1.safetensors -i s2.safetensors \\\n"
        "      -o out.safetensors -O layers=30 -O layer=4 --json\n"
        "  kvreel codec -m KIVI_INT4 --draw 4680x12x128 --json\n",
    .details =
        "Besides the method's options (`kvreel show`), -O accepts these, here with their\n"
        "defaults: layers=1, layer=0, tokens_per_frame=1560, frames_per_chunk=3 and\n"
        "active_tokens=0 (all tokens of IN).\n"
        "\n"
        "In the study's version (@study), each IN is the complete KV cache after a pass, and\n"
        "is encoded as a whole. In the intended version, the first IN is encoded chunk by\n"
        "chunk, and each further IN adds only its new tokens.\n"
        "In OUT, dropped tokens are 0, and every token that a pooled token replaces has the\n"
        "pooled token's values.\n"
        "\n"
        "`stored_sha256` is the hash of codes, scales, zero points and indices. The hash is\n"
        "equal on every CPU for equal input.\n",
    .args = args,
    .opts_size = sizeof(struct codec_opts),
    .max_words = 0,
    .run = run,
};
