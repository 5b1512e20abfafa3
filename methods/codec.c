/* codec.c - parses, encodes, decodes and measures pipelines of stages. */
#include "methods/codec.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/one_thread.h"
#include "methods/block.h"
#include "methods/bounce.h"
#include "methods/eager.h"
#include "methods/codecs/grid/once.h"

const char *const kvr_axis_names[] = { "tokens", "channels", "token", NULL };

/* Writes the codec's canonical text, which contains every option of every stage. */
static void write_text(struct kvr_codec *c)
{
    size_t n = 0;

    c->text[0] = 0;
    for (int i = 0; i < c->n_stages; i++) {
        const struct kvr_stage *st = c->stage[i].stage;
        const char *join =
            i == 0                                                                        ? ""
            : st->kind == KVR_STAGE_GRID && c->stage[i - 1].stage->kind == KVR_STAGE_GRID ? " + "
                                                                                          : " | ";

        n += (size_t)snprintf(c->text + n, sizeof c->text - n, "%s", join);
        if (n >= sizeof c->text)
            return;
        kvr_opts_call(st->name, st->options, c->stage[i].opts, c->text + n, sizeof c->text - n);
        n += strlen(c->text + n);
    }
}

/* Adds the stage of a text "name" or "name(a=1,b=2)" to the codec. The function modifies the
 * text. */
static enum kvr_status add_stage(struct kvr_codec *c, char *text)
{
    struct kvr_codec_stage *slot = &c->stage[c->n_stages];
    char *name = kvr_trim(text), *open = strchr(name, '('), *args = NULL;

    if (c->n_stages == KVR_MAX_STAGES)
        return kvr_fail(KVR_EINVAL, "codec: stage '%s' exceeds the limit of %d stages", name,
                        KVR_MAX_STAGES);
    if (open) {
        char *close = strrchr(open, ')');

        if (!close || close[1])
            return kvr_fail(KVR_EINVAL, "codec: '%s': '(' needs a ')' at the end", name);
        *open = *close = 0;
        args = open + 1;
        name = kvr_trim(name);
    }
    KVR_TRY(kvr_stage_find(&slot->stage, name));
    slot->opts = calloc(1, slot->stage->opts_size ? slot->stage->opts_size : 1);
    if (!slot->opts)
        return kvr_fail(KVR_ENOMEM, "codec: out of memory");
    c->n_stages++;
    kvr_opts_defaults(slot->stage->options, slot->opts);
    if (args) {
        enum kvr_status st = kvr_opts_parse(slot->stage->options, slot->opts, args);

        if (st != KVR_OK)
            return kvr_fail_prefix(st == KVR_ENOMEM ? st : KVR_EINVAL, "codec: %s", name);
    }
    if (slot->stage->table) {
        slot->table = malloc(slot->stage->table_size);
        if (!slot->table)
            return kvr_fail(KVR_ENOMEM, "codec: stage '%s': out of memory while allocating a table",
                            name);
        slot->stage->table(slot->opts, slot->table);
    }
    return KVR_OK;
}

/* Returns the job (arguments) for functions of stage i as if it were the codec's first stage. */
static struct kvr_stage_job bare_job(const struct kvr_codec *c, int i, struct kvr_dev *dev,
                                     const struct kvr_block_shape *shape)
{
    return (struct kvr_stage_job){
        .stage = c->stage[i].stage,
        .opts = c->stage[i].opts,
        .table = c->stage[i].table,
        .dev = dev,
        .side = c->side,
        .study = c->study,
        .eager = c->eager,
        .compute = c->compute,
        .shape = *shape,
    };
}

struct kvr_layout kvr_stage_layout(const struct kvr_stage_job *job)
{
    struct kvr_layout l = { 0 };

    if (job->stage->layout)
        job->stage->layout(job, &l);
    return l;
}

void kvr_codec_layout(const struct kvr_codec *c, int i, const struct kvr_block_shape *shape,
                      struct kvr_layout *out)
{
    const struct kvr_stage_job job = bare_job(c, i, NULL, shape);

    *out = kvr_stage_layout(&job);
}

bool kvr_codec_varies(const struct kvr_codec *c, const struct kvr_block_shape *shape)
{
    struct kvr_layout l;

    for (int i = 0; i < c->n_stages; i++) {
        kvr_codec_layout(c, i, shape, &l);
        if (l.most_entries)
            return true;
    }
    return false;
}

/* Returns the layout of stage i for a dummy block of 0 tokens, 1 head and 1 channel. Fields of the
 * layout that depend on the block's shape are not valid. */
static struct kvr_layout any_layout(const struct kvr_codec *c, int i)
{
    struct kvr_layout l;

    kvr_codec_layout(c, i, &(struct kvr_block_shape){ 0, 1, 1 }, &l);
    return l;
}

static bool leaves_nothing(const struct kvr_codec *c, int i)
{
    return c->stage[i].stage->kind == KVR_STAGE_GRID && any_layout(c, i).form == KVR_FORM_RAW;
}

/* Checks the order of the stages: transforms and EXACT stages come first, followed by grids joined
 * by '+'. */
static enum kvr_status check_order(const struct kvr_codec *c, const char *text, const char *joins)
{
    bool grid = false;
    int exact = 0;

    for (int i = 0; i < c->n_stages; i++) {
        const struct kvr_stage *st = c->stage[i].stage;

        if (st->kind != KVR_STAGE_GRID && grid)
            return kvr_fail(KVR_EINVAL,
                            "codec: '%s': stage '%s' must precede the grid stages (raw, sym, ...)",
                            text, st->name);
        if (st->kind == KVR_STAGE_GRID && grid && joins[i] != '+')
            return kvr_fail(KVR_EINVAL,
                            "codec: '%s': grid stages '%s' and '%s' must be joined by '+', not '|'",
                            text, c->stage[i - 1].stage->name, st->name);
        if (st->kind == KVR_STAGE_EXACT && exact++)
            return kvr_fail(KVR_EINVAL, "codec: '%s': stage '%s' may occur only once", text,
                            st->name);
        if (joins[i] == '+' && (!grid || st->kind != KVR_STAGE_GRID))
            return kvr_fail(KVR_EINVAL,
                            "codec: '%s': '+' may join only grid stages (raw, sym, ...), not '%s'",
                            text, (grid ? st : c->stage[i - 1].stage)->name);
        for (int j = i - 1; joins[i] == '+' && j <= i; j++)
            if (leaves_nothing(c, j))
                return kvr_fail(KVR_EINVAL,
                                "codec: '%s': '+' cannot join stage '%s', which does not quantize",
                                text, c->stage[j].stage->name);
        grid = grid || st->kind == KVR_STAGE_GRID;
    }
    if (!grid)
        return kvr_fail(KVR_EINVAL,
                        "codec: '%s': need a grid stage (raw, sym, ...), which stores the elements",
                        text);
    return KVR_OK;
}

enum kvr_status kvr_codec_open(struct kvr_codec **out, const char *text, enum kvr_side side,
                               bool study)
{
    struct kvr_codec *c = calloc(1, sizeof *c);
    char copy[256], joins[KVR_MAX_STAGES + 1] = { 0 };
    enum kvr_status st = KVR_OK;
    char *p = copy, join = 0;

    if (!c)
        return kvr_fail(KVR_ENOMEM, "codec: out of memory");
    c->side = side;
    c->study = study;
    if (strlen(text) >= sizeof copy) {
        st = kvr_fail(KVR_EINVAL, "codec: the pipeline has %zu characters, at most %zu are allowed",
                      strlen(text), sizeof copy - 1);
        goto fail;
    }
    strcpy(copy, text);
    while (p) {
        char *end = p + strcspn(p, "|+"), next = *end;

        *end = 0;
        if (c->n_stages < KVR_MAX_STAGES)
            joins[c->n_stages] = join;
        st = add_stage(c, p);
        if (st != KVR_OK)
            goto fail;
        join = next;
        p = next ? end + 1 : NULL;
    }
    st = check_order(c, text, joins);
    if (st != KVR_OK)
        goto fail;
    write_text(c);
    *out = c;
    return KVR_OK;
fail:
    kvr_codec_close(&c);
    return st;
}

void kvr_codec_close(struct kvr_codec **c)
{
    if (!*c)
        return;
    for (int i = 0; i < (*c)->n_stages; i++) {
        free((*c)->stage[i].table);
        free((*c)->stage[i].opts);
    }
    free(*c);
    *c = NULL;
}

enum kvr_status kvr_codec_set(struct kvr_codec *c, int stage, const char *name, const char *value,
                              int *n_set)
{
    *n_set = 0;
    for (int i = 0; i < c->n_stages; i++) {
        const struct kvr_stage *st = c->stage[i].stage;

        if ((stage && stage != i + 1) || !kvr_opts_find(st->options, name))
            continue;
        enum kvr_status e = kvr_opts_set(st->options, c->stage[i].opts, name, value);
        if (e != KVR_OK)
            return kvr_fail_prefix(e, "%s", st->name);
        if (st->table)
            st->table(c->stage[i].opts, c->stage[i].table);
        ++*n_set;
    }
    write_text(c);
    return KVR_OK;
}

enum kvr_status kvr_codec_check(const struct kvr_codec *c, int n_heads, int head_dim)
{
    const struct kvr_block_shape shape = { 0, n_heads, head_dim };

    for (int i = 0; i < c->n_stages; i++) {
        const struct kvr_stage_job job = bare_job(c, i, NULL, &shape);

        if (!job.stage->check)
            continue;
        enum kvr_status e = job.stage->check(&job);
        if (e != KVR_OK)
            return kvr_fail_prefix(e, "%s", job.stage->name);
    }
    return KVR_OK;
}

int kvr_codec_unit_tokens(const struct kvr_codec *c)
{
    int unit = 1;

    for (int i = 0; i < c->n_stages; i++) {
        const int u = any_layout(c, i).unit_tokens;

        unit = u > unit ? u : unit;
    }
    return unit;
}

int kvr_codec_origin_tokens(const struct kvr_codec *c)
{
    int most = 0;

    for (int i = 0; i < c->n_stages; i++) {
        const int n = any_layout(c, i).origin_tokens;

        most = n > most ? n : most;
    }
    return most;
}

bool kvr_codec_is_raw(const struct kvr_codec *c)
{
    return c->n_stages == 1 && leaves_nothing(c, 0);
}

bool kvr_codec_idempotent(const struct kvr_codec *c)
{
    /* Two grids joined by '+' are not idempotent: encoding their decoded values again finds another
     * range for the first grid. Rounding the decoded values to BF16 also changes the range. */
    return c->n_stages == 1 && c->stage[0].stage->idempotent &&
           (c->compute == KVR_COMPUTE_F32 || kvr_codec_is_raw(c));
}

bool kvr_codec_joint(const struct kvr_codec *c)
{
    return c->n_stages == 1 && c->stage[0].stage->joint;
}

enum kvr_status kvr_codec_check_joint(const struct kvr_codec *k, const struct kvr_codec *v)
{
    for (int side = 0; side < 2; side++) {
        const struct kvr_codec *c = side ? v : k, *other = side ? k : v;

        for (int i = 0; i < c->n_stages; i++)
            if (c->stage[i].stage->joint && (c->n_stages > 1 || strcmp(c->text, other->text) != 0))
                return kvr_fail(
                    KVR_EINVAL,
                    "stage '%s' encodes keys and values jointly: it must be the only stage of the "
                    "key and value pipelines, with equal options, not '%s' and '%s'",
                    c->stage[i].stage->name, k->text, v->text);
    }
    return KVR_OK;
}

bool kvr_codec_rotated(const struct kvr_codec *c)
{
    return c->stage[0].stage->kind == KVR_STAGE_TRANSFORM;
}

bool kvr_codec_same_space(const struct kvr_codec *a, const struct kvr_codec *b)
{
    const struct kvr_codec_stage *x = &a->stage[0], *y = &b->stage[0];

    if (!kvr_codec_rotated(a) || !kvr_codec_rotated(b))
        return kvr_codec_rotated(a) == kvr_codec_rotated(b);
    return x->stage == y->stage && a->study == b->study &&
           (!x->stage->opts_size || !memcmp(x->opts, y->opts, x->stage->opts_size));
}

static int n_grids(const struct kvr_codec *c, int end)
{
    int n = 0;

    for (int i = 0; i < end; i++)
        n += c->stage[i].stage->kind == KVR_STAGE_GRID;
    return n;
}

/* Returns the job for functions of stage i. The option compute=bf16 affects only how the first grid
 * fits its scales and zero points, as in the study. The second grid encodes an FP32 residual. The
 * decoded values of both grids are added in FP32, and their sum is rounded to BF16. */
static struct kvr_stage_job job_of(const struct kvr_codec *c, int i, struct kvr_dev *dev,
                                   const struct kvr_block_shape *shape)
{
    struct kvr_stage_job job = bare_job(c, i, dev, shape);

    if (n_grids(c, i) > 0)
        job.compute = KVR_COMPUTE_F32;
    return job;
}

static struct kvr_stage_job packed_job(const struct kvr_packed *p, int i)
{
    struct kvr_stage_job job = job_of(p->codec, i, p->dev, &p->shape);

    job.place = p->place;
    return job;
}

void kvr_packed_layout(const struct kvr_packed *p, int i, struct kvr_layout *out)
{
    const struct kvr_stage_job job = packed_job(p, i);

    *out = kvr_stage_layout(&job);
}

size_t kvr_codec_bytes(const struct kvr_codec *c, const struct kvr_block_shape *shape)
{
    const struct kvr_packed none = { .codec = c, .shape = *shape };
    const struct kvr_stage_bytes b = kvr_packed_nominal(&none);

    return b.codes + b.meta;
}

static bool in_host(const struct kvr_dev *dev)
{
    return !dev || kvr_dev_in_host(dev);
}

/* Returns the stage's functions for the backend of job->dev. Returns NULL if there are none; the
 * CPU functions then process a host copy of the values (bounce.h). */
static const struct kvr_stage_ops *ops_of(const struct kvr_stage_job *job)
{
    const struct kvr_stage_ops *const tables[KVR_N_BACKENDS] = {
        [KVR_CPU] = &job->stage->cpu,
        [KVR_CUDA] = job->stage->cuda,
    };

    return tables[job->dev ? kvr_dev_backend(job->dev) : KVR_CPU];
}

static void transform(const struct kvr_stage_job *job, enum kvr_transform_way way, float *x,
                      int64_t n, int h0, int nh)
{
    const struct kvr_stage_ops *ops = ops_of(job);

    if (job->eager)
        kvr_eager_transform(job, x, n * nh);
    else if (ops)
        ops->transform(job, way, x, n, h0, nh);
    else
        kvr_bounce_transform(job, way, x, n, h0, nh);
}

void kvr_codec_transform(const struct kvr_codec *c, struct kvr_dev *dev, enum kvr_transform_way way,
                         float *x, int64_t n, int h0, int nh, int head_dim)
{
    struct kvr_stage_job job = bare_job(c, 0, dev, &(struct kvr_block_shape){ n, nh, head_dim });

    job.compute = KVR_COMPUTE_F32;
    job.eager = false;
    if (kvr_codec_rotated(c))
        transform(&job, way, x, n, h0, nh);
}

/* `scratch`: kvr_eager_floats(). */
static enum kvr_status encode_stage(const struct kvr_stage_job *job, float *x, float *scratch,
                                    struct kvr_stage_data *out)
{
    const struct kvr_stage_ops *ops = ops_of(job);

    if (job->stage->kind == KVR_STAGE_TRANSFORM) {
        transform(job, KVR_TO_SPACE, x, job->shape.n_tok, 0, job->shape.n_heads);
        return KVR_OK;
    }
    if (kvr_eager_grid(job)) {
        kvr_eager_encode(job, x, scratch, out);
        return KVR_OK;
    }
    return ops ? ops->encode(job, x, out) : kvr_bounce_encode(job, x, out);
}

static void decode_stage(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                         int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,
                         float *out)
{
    const struct kvr_stage_ops *ops = ops_of(job);

    if (job->stage->kind == KVR_STAGE_TRANSFORM)
        transform(job, KVR_FROM_SPACE, out, n, h0, nh);
    else if (mode == KVR_DECODE_SET && kvr_eager_grid(job))
        kvr_eager_decode(job, in, t0, n, h0, nh, out);
    else if (ops)
        ops->decode(job, in, t0, n, h0, nh, mode, out);
    else
        kvr_bounce_decode(job, in, t0, n, h0, nh, mode, out);
}

/* Allocates a stage's buffers, unless their size depends on the values to encode. */
static enum kvr_status alloc_stage(const struct kvr_stage_job *job, struct kvr_stage_data *out)
{
    const struct kvr_layout l = kvr_stage_layout(job);

    if (l.entry.codes || l.entry.meta)
        return KVR_OK;
    if (l.form != KVR_FORM_OWN) { /* not filled with zeros, because the encoder writes every byte */
        KVR_TRY(kvr_buf_alloc_raw(&out->codes, job->dev, KVR_MEM_KV, l.bytes.codes));
        return kvr_buf_alloc_raw(&out->meta, job->dev, KVR_MEM_META, l.bytes.meta);
    }
    KVR_TRY(kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, l.bytes.codes));
    return kvr_buf_alloc(&out->meta, job->dev, KVR_MEM_META, l.bytes.meta);
}

/* Describes the stages from `first` on as one chain: an optional transform, followed by integer
 * grids. Returns false if the stages are not such a chain. */
static bool chain_of(const struct kvr_codec *c, int first, struct kvr_dev *dev,
                     const struct kvr_block_shape *shape, struct kvr_grid_chain *out)
{
    const bool rotate = c->stage[first].stage->kind == KVR_STAGE_TRANSFORM;

    *out = (struct kvr_grid_chain){ .rotate = rotate, .rotate_compute = c->compute };
    if (c->eager)
        return false;
    if (rotate) {
        const struct kvr_stage_job job = bare_job(c, first, dev, shape);

        if (!ops_of(&job) || any_layout(c, first).form != KVR_FORM_WALSH)
            return false;
    }
    for (int i = first + rotate; i < c->n_stages; i++) {
        const struct kvr_stage_job job = job_of(c, i, dev, shape);
        const struct kvr_layout l = kvr_stage_layout(&job);

        if (!ops_of(&job) || !l.chains || out->n == 2)
            return false;
        out->grid[out->n] = kvr_grid_of_layout(&l);
        out->job[out->n++] = job;
    }
    return out->n > 0 && out->n + rotate <= 2;
}

/* Returns whether a fused chain is faster than separate stages. It is faster if it has two stages:
 * two grids, or a transform and a grid. */
static bool worth_chaining(const struct kvr_grid_chain *chain)
{
    return chain->n + chain->rotate == 2;
}

static enum kvr_status alloc_chain(int first, const struct kvr_grid_chain *chain,
                                   struct kvr_packed *out, const struct kvr_stage_data *data[2])
{
    for (int i = 0; i < chain->n; i++) {
        const int at = first + chain->rotate + i;

        KVR_TRY(alloc_stage(&chain->job[i], &out->stage[at]));
        data[i] = &out->stage[at];
    }
    return KVR_OK;
}

/* Encodes all stages from `first` on in one kernel if the device supports the chain. *done receives
 * whether the device encoded the chain. */
static enum kvr_status encode_chain(const struct kvr_codec *c, int first,
                                    const struct kvr_values *x, struct kvr_packed *out, bool *done)
{
    const struct kvr_stage_data *data[2] = { NULL, NULL };
    struct kvr_grid_chain chain;

    *done = false;
    if (!kvr_block_chains(out->dev) || !chain_of(c, first, out->dev, &out->shape, &chain) ||
        (!x->bf16 && !worth_chaining(&chain)))
        return KVR_OK;
    KVR_TRY(alloc_chain(first, &chain, out, data));
    *done = kvr_block_encode_chain(out->dev, &chain, x, data);
    for (int i = first; x->bf16 && !*done && i < c->n_stages;
         i++) { /* free the buffers: the caller converts x to F32 and allocates them again */
        kvr_buf_free(&out->stage[i].codes);
        kvr_buf_free(&out->stage[i].meta);
    }
    return KVR_OK;
}

static void drop_stages(struct kvr_packed *out)
{
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        kvr_buf_free(&out->stage[i].codes);
        kvr_buf_free(&out->stage[i].meta);
        out->stage[i] = (struct kvr_stage_data){ 0 };
    }
}

/* On the CPU, encodes a chain and any outliers tile by tile, so that every value is read from
 * memory only once. Sets *done if it encoded the block; otherwise the caller encodes the stages
 * separately. */
static enum kvr_status encode_tiles(const struct kvr_codec *c, const struct kvr_values *x,
                                    float *work, struct kvr_packed *out, bool *done)
{
    const struct kvr_stage *stage = c->stage[0].stage;
    const struct kvr_stage_job job = job_of(c, 0, out->dev, &out->shape);
    const int64_t n = out->shape.n_tok * out->shape.n_heads * out->shape.head_dim;
    const bool find = stage->kind == KVR_STAGE_EXACT;
    const struct kvr_stage_data *data[2] = { NULL, NULL };
    struct kvr_instead instead = { 0 };
    struct kvr_grid_chain chain;
    int64_t scratch;

    *done = false;
    if (!in_host(out->dev) || x->p == work || (find && (!stage->cpu.find || c->n_stages < 2)) ||
        !chain_of(c, find, out->dev, &out->shape, &chain))
        return KVR_OK;
    scratch = kvr_chain_scratch(&chain);
    if (!scratch || (!find && !x->bf16 && !worth_chaining(&chain)))
        return KVR_OK;
    KVR_TRY(alloc_chain(find, &chain, out, data));
    if (find)
        KVR_TRY(kvr_once_encode(&chain, &job, x, work, scratch, &out->stage[0], data, done));
    if (*done)
        return KVR_OK;
    if (find)
        KVR_TRY(stage->cpu.find(&job, x, work, &out->stage[0], &instead));
    /* `work` is too small for both the encoder's scratch and the values that replace outliers */
    if (instead.n > n - scratch) {
        drop_stages(out);
        return KVR_OK;
    }
    kvr_chain_encode(&chain, x, &instead, 0, work, data);
    *done = true;
    return KVR_OK;
}

int64_t kvr_codec_work_floats(const struct kvr_codec *c, const struct kvr_block_shape *shape)
{
    int64_t most = 0;

    for (int i = 0; i < c->n_stages; i++) {
        const struct kvr_stage_job job = bare_job(c, i, NULL, shape);
        const int64_t n = kvr_eager_floats(&job);

        most = n > most ? n : most;
    }
    return shape->n_tok * shape->n_heads * shape->head_dim + most;
}

static enum kvr_status encode_values(const struct kvr_codec *c, struct kvr_dev *dev,
                                     const struct kvr_values *values,
                                     const struct kvr_block_shape *shape,
                                     const struct kvr_place *place, float *work,
                                     struct kvr_packed *out)
{
    const int64_t n = shape->n_tok * shape->n_heads * shape->head_dim;
    const float *x = values->p;
    bool owns_copy = false, done = false;
    enum kvr_status st;

    *out = (struct kvr_packed){ .codec = c, .dev = dev, .shape = *shape, .place = *place };
    st = encode_tiles(c, values, work, out, &done);
    if (values->bf16 && !done && st == KVR_OK)
        st = encode_chain(c, 0, values, out, &done);
    if (values->bf16 && !done && st == KVR_OK) {
        kvr_block_widen(dev, work, values->p, n);
        x = work;
        owns_copy = true;
    }
    for (int i = 0; i < c->n_stages && !done && st == KVR_OK; i++) {
        const struct kvr_stage *stage = c->stage[i].stage;
        struct kvr_stage_job job = packed_job(out, i);
        struct kvr_stage_data *d = &out->stage[i];
        const bool last = i + 1 == c->n_stages;

        if (!d->codes.p && !d->meta.p)
            st = encode_chain(c, i, &(struct kvr_values){ .p = x }, out, &done);
        if (done || st != KVR_OK)
            break;
        if (!last && !owns_copy) { /* this stage modifies its input, so encode a copy of x */
            kvr_block_copy(dev, work, x, n);
            x = work;
            owns_copy = true;
        }
        if (!d->codes.p && !d->meta.p)
            st = alloc_stage(&job, d);
        /* The last stage is always a grid, which does not modify its input, so the cast that drops
         * `const` is safe. */
        if (st == KVR_OK)
            st = encode_stage(&job, owns_copy ? work : (float *)(uintptr_t)x,
                              work ? work + n : NULL, d);
        if (st == KVR_OK && stage->kind == KVR_STAGE_GRID && !last) {
            /* subtract the decoded values: the next grid encodes the residual */
            job.compute = KVR_COMPUTE_F32;
            decode_stage(&job, d, 0, shape->n_tok, 0, shape->n_heads, KVR_DECODE_SUB, work);
        }
    }
    if (st != KVR_OK)
        kvr_packed_free(out);
    return st;
}

enum kvr_status kvr_codec_encode_values(const struct kvr_codec *c, struct kvr_dev *dev,
                                        const struct kvr_values *values,
                                        const struct kvr_block_shape *shape,
                                        const struct kvr_place *place, float *work,
                                        struct kvr_packed *out)
{
    const int n_threads =
        kvr_one_thread_begin(c, dev, shape->n_tok * shape->n_heads * shape->head_dim);
    const enum kvr_status st = encode_values(c, dev, values, shape, place, work, out);

    kvr_one_thread_end(n_threads);
    return st;
}

enum kvr_status kvr_codec_encode_at(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                    const struct kvr_block_shape *shape,
                                    const struct kvr_place *place, float *work,
                                    struct kvr_packed *out)
{
    const struct kvr_values values = { .p = x };

    return kvr_codec_encode_values(c, dev, &values, shape, place, work, out);
}

enum kvr_status kvr_codec_encode(const struct kvr_codec *c, struct kvr_dev *dev, const float *x,
                                 const struct kvr_block_shape *shape, float *work,
                                 struct kvr_packed *out)
{
    return kvr_codec_encode_at(c, dev, x, shape, &(struct kvr_place){ 0 }, work, out);
}

enum kvr_status kvr_codec_encode_bf16(const struct kvr_codec *c, struct kvr_dev *dev,
                                      const kvr_bf16 *x, const struct kvr_block_shape *shape,
                                      float *work, struct kvr_packed *out)
{
    const struct kvr_values values = { .p = x, .bf16 = true };

    return kvr_codec_encode_values(c, dev, &values, shape, &(struct kvr_place){ 0 }, work, out);
}

enum kvr_status kvr_codec_start_joint(const struct kvr_codec *k)
{
    const struct kvr_stage_job job = bare_job(k, 0, NULL, &(struct kvr_block_shape){ 0 });

    return job.stage->joint->start(&job);
}

enum kvr_status kvr_codec_encode_joint(const struct kvr_codec *ck, const struct kvr_codec *cv,
                                       struct kvr_dev *dev, const float *k, const float *v,
                                       const struct kvr_block_shape *shape,
                                       const struct kvr_place *place, struct kvr_packed *out_k,
                                       struct kvr_packed *out_v)
{
    struct kvr_stage_job job = bare_job(ck, 0, dev, shape);
    enum kvr_status st;

    job.place = *place;
    *out_k = (struct kvr_packed){ .codec = ck, .dev = dev, .shape = *shape, .place = *place };
    *out_v = (struct kvr_packed){ .codec = cv, .dev = dev, .shape = *shape, .place = *place };
    st = job.stage->joint->encode(&job, k, v, &out_k->stage[0], &out_v->stage[0]);
    if (st != KVR_OK) {
        kvr_packed_free(out_k);
        kvr_packed_free(out_v);
    }
    return st;
}

/* Sets data[] to the encoded buffers of the grids of the chain that begins at stage `first`.
 * Selects the chain's decoding arithmetic: two grids are decoded in FP32, and compute=bf16 rounds
 * only their sum. */
static void chain_to_decode(const struct kvr_packed *p, int first, struct kvr_grid_chain *chain,
                            const struct kvr_stage_data *data[2])
{
    for (int i = 0; i < chain->n; i++) {
        data[i] = &p->stage[first + chain->rotate + i];
        chain->job[i].compute = chain->n > 1 ? KVR_COMPUTE_F32 : chain->job[i].compute;
    }
    chain->round = chain->n > 1 && p->codec->compute == KVR_COMPUTE_BF16;
}

/* Decodes all grids, and inverts a transform that precedes them, in one kernel. *left receives the
 * number of earlier stages that the caller must still invert. Returns false without decoding if the
 * device does not support the chain. */
static bool decode_chain(const struct kvr_packed *p, int first_undone, int64_t t0, int64_t n,
                         int h0, int nh, float *out, int *left)
{
    const struct kvr_codec *c = p->codec;
    const struct kvr_stage_data *data[2] = { NULL, NULL };
    struct kvr_grid_chain chain;
    int first = 0;

    while (c->stage[first].stage->kind != KVR_STAGE_GRID)
        first++;
    if (first > first_undone && first + 1 == c->n_stages &&
        c->stage[first - 1].stage->kind == KVR_STAGE_TRANSFORM)
        first--;
    if (!chain_of(c, first, p->dev, &p->shape, &chain) || !worth_chaining(&chain))
        return false;
    chain_to_decode(p, first, &chain, data);
    *left = first;
    return kvr_block_decode_chain(p->dev, &chain, data, t0, n, h0, nh, out);
}

static void decode_from(const struct kvr_packed *p, int first_undone, int64_t t0, int64_t n, int h0,
                        int nh, float *out)
{
    const struct kvr_codec *c = p->codec;
    enum kvr_decode_mode mode = KVR_DECODE_SET;
    const bool chain = n_grids(c, c->n_stages) > 1;
    int left = c->n_stages;
    const bool done =
        kvr_block_chains(p->dev) && decode_chain(p, first_undone, t0, n, h0, nh, out, &left);

    for (int i = 0; i < c->n_stages && !done; i++) {
        if (c->stage[i].stage->kind != KVR_STAGE_GRID)
            continue;
        struct kvr_stage_job job = packed_job(p, i);

        if (chain)
            job.compute = KVR_COMPUTE_F32;
        decode_stage(&job, &p->stage[i], t0, n, h0, nh, mode, out);
        mode = KVR_DECODE_ADD;
    }
    if (chain && !done && c->compute == KVR_COMPUTE_BF16)
        kvr_block_round(p->dev, out, n * nh * p->shape.head_dim);
    /* Invert the stages before the grids, in reverse order. */
    for (int i = (done ? left : c->n_stages) - 1; i >= first_undone; i--) {
        if (c->stage[i].stage->kind == KVR_STAGE_GRID)
            continue;
        struct kvr_stage_job job = packed_job(p, i);

        decode_stage(&job, &p->stage[i], t0, n, h0, nh, KVR_DECODE_SET, out);
    }
}

/* On the CPU, decodes a large range in runs of RUN tokens: a run fits into a core's cache, and
 * different threads decode different runs. */
static void decode_in_runs(const struct kvr_packed *p, int first_undone, int64_t t0, int64_t n,
                           int h0, int nh, float *out)
{
    enum { RUN = 16 };
    const int64_t width = (int64_t)nh * p->shape.head_dim, end = t0 + n;

    if (!in_host(p->dev) || p->codec->eager || n * width < 1 << 17 || omp_in_parallel()) {
        const int n_threads = kvr_one_thread_begin(p->codec, p->dev, n * width);

        decode_from(p, first_undone, t0, n, h0, nh, out);
        kvr_one_thread_end(n_threads);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t run = t0 / RUN; run <= (end - 1) / RUN; run++) {
        const int64_t begin = run * RUN > t0 ? run * RUN : t0;
        const int64_t stop = (run + 1) * RUN < end ? (run + 1) * RUN : end;

        decode_from(p, first_undone, begin, stop - begin, h0, nh, out + (begin - t0) * width);
    }
}

void kvr_codec_decode(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh, float *out)
{
    decode_in_runs(p, 0, t0, n, h0, nh, out);
}

void kvr_codec_decode_rotated(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                              float *out)
{
    decode_in_runs(p, kvr_codec_rotated(p->codec) ? 1 : 0, t0, n, h0, nh, out);
}

bool kvr_codec_is_bf16(const struct kvr_codec *c)
{
    return kvr_codec_is_raw(c) && any_layout(c, 0).type == KVR_BF16;
}

/* Returns the index of the first stage after a stage that stores outliers, which overwrite the
 * decoded values of later stages: 1 if the first stage stores outliers, else 0. */
static int after_entries(const struct kvr_codec *c)
{
    return c->n_stages > 1 && any_layout(c, 0).form == KVR_FORM_ENTRIES;
}

bool kvr_codec_decodes_bf16(const struct kvr_codec *c, int n_heads, int head_dim)
{
    const struct kvr_block_shape shape = { 1, n_heads, head_dim };
    struct kvr_grid_chain chain;

    for (int i = 0; i < c->n_stages; i++)
        if (!c->stage[i].stage->cuda)
            return false;
    return chain_of(c, after_entries(c), NULL, &shape, &chain) && kvr_block_decodes_bf16(&chain);
}

void kvr_codec_decode_bf16(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                           kvr_bf16 *out)
{
    const struct kvr_stage_data *data[2] = { NULL, NULL };
    const int first = after_entries(p->codec);
    struct kvr_grid_chain chain;

    chain_of(p->codec, first, p->dev, &p->shape, &chain);
    chain_to_decode(p, first, &chain, data);
    kvr_block_decode_chain_bf16(p->dev, &chain, data, t0, n, h0, nh, out);
    if (first)
        kvr_block_put_entries_bf16(p->dev, &p->shape, &p->stage[0], t0, n, h0, nh, out);
}

void kvr_codec_noise(const struct kvr_packed *p, struct kvr_coding_noise *out)
{
    const struct kvr_codec *c = p->codec;
    const int last = c->n_stages - 1; /* the last stage is always a grid */
    bool exact = false;

    *out = (struct kvr_coding_noise){ 0 };
    for (int i = 0; i <= last; i++) {
        const struct kvr_stage_job job = packed_job(p, i);

        if (job.stage->kind ==
            KVR_STAGE_TRANSFORM) /* in transformed space, outliers of earlier stages are not single
                                  * channels */
            *out = (struct kvr_coding_noise){ .rotated = true };
        exact = exact || job.stage->kind == KVR_STAGE_EXACT;
        if (job.stage->noise && (job.stage->kind == KVR_STAGE_EXACT || i == last))
            job.stage->noise(&job, &p->stage[i], out);
    }
    for (int i = 0; i < last; i++) { /* SHIFT stages adapt the grid's error model */
        const struct kvr_stage_job job = packed_job(p, i);

        if (job.stage->noise && job.stage->kind == KVR_STAGE_SHIFT)
            job.stage->noise(&job, &p->stage[i], out);
    }
    if (out->rope_rotated && exact) /* no error model if one channel of a RoPE pair is exact */
        out->kind = KVR_NOISE_MEASURED;
}

void kvr_packed_scales(const struct kvr_packed *p, int64_t t0, int64_t n, int h0, int nh,
                       float *out)
{
    const int last = p->codec->n_stages - 1;
    const struct kvr_stage_job job = packed_job(p, last);

    decode_stage(&job, &p->stage[last], t0, n, h0, nh, KVR_DECODE_SCALES, out);
}
