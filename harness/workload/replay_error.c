/* replay_error.c - see replay_error.h. Sums are in double: the rounding error of a term is
 * relatively 1e-16, far below that of F32 outputs. */
#include "harness/workload/replay_error.h"

#include <math.h>
#include <stdlib.h>

struct sums {
    double queries, se, energy, cosines, elements;
};

struct kvr_replay_errors {
    struct kvr_cache_shape shape;
    struct kvr_dev *dev; /* CPU device of the BF16 cache; NULL: no comparison with BF16 */
    struct kvr_scheme *bf16;
    struct kvr_cache *cache;
    float *out; /* [T,H,D]: attention output of the BF16 cache */
    int n_chunks;
    struct sums *chunk; /* [n_chunks] */
    double recorded_se, recorded_energy;
    int64_t recorded; /* number of values compared with the trace's recorded outputs */
    float *row;       /* [H,D]: recorded output of one token, in F32 */
};

static size_t width_of(const struct kvr_cache_shape *s)
{
    return (size_t)s->n_heads * (size_t)s->head_dim;
}

static enum kvr_status open_cache(struct kvr_replay_errors *e)
{
    struct kvr_cache_shape s = e->shape;
    const size_t n = (size_t)s.frames_per_chunk * (size_t)s.tokens_per_frame * width_of(&s);

    s.attend = KVR_ATTEND_FLOAT;
    s.evict = true; /* a token outside the attention window is never visible again */
    e->out = malloc(n * sizeof *e->out);
    if (!e->out)
        return kvr_fail(KVR_ENOMEM,
                        "replay: out of memory while allocating a chunk's attention outputs");
    KVR_TRY(kvr_dev_open(&e->dev, KVR_CPU));
    KVR_TRY(kvr_scheme_open(&e->bf16, kvr_reference_method, NULL, 0));
    return kvr_cache_open(&e->cache, e->dev, e->bf16, &s, KVR_PATH_STAGED);
}

enum kvr_status kvr_replay_errors_open(struct kvr_replay_errors **out,
                                       const struct kvr_cache_shape *shape, int n_chunks,
                                       bool compare)
{
    struct kvr_replay_errors *e = calloc(1, sizeof *e);
    enum kvr_status st = KVR_OK;

    if (e) {
        e->shape = *shape;
        e->n_chunks = n_chunks;
        e->chunk = calloc((size_t)n_chunks, sizeof *e->chunk);
        e->row = malloc(width_of(shape) * sizeof *e->row);
    }
    if (!e || !e->chunk || !e->row)
        st = kvr_fail(KVR_ENOMEM, "replay: out of memory while allocating %d chunks", n_chunks);
    else if (compare)
        st = open_cache(e);
    if (st != KVR_OK)
        kvr_replay_errors_close(&e);
    *out = e;
    return st;
}

void kvr_replay_errors_close(struct kvr_replay_errors **pe)
{
    struct kvr_replay_errors *e = *pe;

    if (!e)
        return;
    kvr_cache_close(&e->cache);
    kvr_scheme_close(&e->bf16);
    kvr_dev_close(&e->dev);
    free(e->out);
    free(e->chunk);
    free(e->row);
    free(e);
    *pe = NULL;
}

enum kvr_status kvr_replay_errors_begin(struct kvr_replay_errors *e, const struct kvr_pass *pass)
{
    return e->cache ? kvr_cache_begin_pass(e->cache, pass) : KVR_OK;
}

enum kvr_status kvr_replay_errors_end(struct kvr_replay_errors *e)
{
    return e->cache ? kvr_cache_end_pass(e->cache) : KVR_OK;
}

/* --- one call --------------------------------------------------------------------------- */

/* Adds the error of one head's attention output for one query: method [D] against bf16 [D]. */
static void add_head(struct sums *s, const float *method, const float *bf16, int d)
{
    double dot = 0, a = 0, b = 0;

    for (int c = 0; c < d; c++) {
        const double m = (double)method[c], o = (double)bf16[c];

        s->se += (m - o) * (m - o);
        dot += m * o;
        a += m * m;
        b += o * o;
    }
    s->energy += b;
    s->cosines += a > 0 && b > 0 ? dot / sqrt(a * b) : a == b ? 1 : 0;
    s->queries += 1;
    s->elements += d;
}

static void add_recorded(struct kvr_replay_errors *e, const struct kvr_trace_call *c,
                         const float *out)
{
    const size_t width = width_of(&e->shape), size = kvr_dtype_size(c->out.dtype);

    for (int64_t t = 0; t < c->n_tok; t++) {
        kvr_to_f32(e->row, (const char *)c->out.data + (size_t)t * width * size, c->out.dtype,
                   width);
        for (size_t i = 0; i < width; i++) {
            const double o = (double)e->row[i], d = (double)out[(size_t)t * width + i] - o;

            e->recorded_se += d * d;
            e->recorded_energy += o * o;
        }
        e->recorded += (int64_t)width;
    }
}

enum kvr_status kvr_replay_errors_add(struct kvr_replay_errors *e, const struct kvr_trace_pass *p,
                                      int layer, const struct kvr_trace_call *call, const float *q,
                                      const float *k, const float *v, const float *out)
{
    const int d = e->shape.head_dim;

    if (call && call->out.data)
        add_recorded(e, call, out);
    if (!e->cache)
        return KVR_OK;
    KVR_TRY(kvr_cache_append(e->cache, layer, k, v));
    if (!call)
        return kvr_cache_commit(e->cache, layer);
    KVR_TRY(kvr_cache_attend(e->cache, layer, q, e->out));
    for (int64_t i = 0; p->chunk > 0 && i < call->n_tok * e->shape.n_heads; i++)
        add_head(&e->chunk[p->chunk], out + i * d, e->out + i * d, d);
    return KVR_OK;
}

/* --- numbers ---------------------------------------------------------------------------- */

/* Computes the relative error sqrt(se / energy) from sums of squared errors and of squared BF16
 * outputs. If both are 0, the error is 0. */
static double root_of(double se, double energy)
{
    return se == 0 ? 0 : sqrt(se / energy);
}

static struct kvr_replay_error means(const struct sums *s)
{
    if (!(s->queries > 0))
        return (struct kvr_replay_error){ 0, NAN, NAN, NAN };
    return (struct kvr_replay_error){ (int64_t)s->queries, s->se / s->elements,
                                      root_of(s->se, s->energy), s->cosines / s->queries };
}

void kvr_replay_errors_result(const struct kvr_replay_errors *e, struct kvr_replay_result *out)
{
    struct sums all = { 0 };

    for (int i = 0; i < e->n_chunks; i++) {
        const struct sums *s = &e->chunk[i];

        out->chunk[i] = means(s);
        all.queries += s->queries;
        all.se += s->se;
        all.energy += s->energy;
        all.cosines += s->cosines;
        all.elements += s->elements;
    }
    out->all = means(&all);
    out->recorded_rel = e->recorded ? root_of(e->recorded_se, e->recorded_energy) : NAN;
}
