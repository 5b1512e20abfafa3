/* salience_head.c - see salience_head.h. */
#include "methods/kernels/salience_head.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"
#include "harness/core/safetensors.h"

/* The file models/nano/salience.safetensors, which is embedded in the program, and the shape of the
 * model for which its weights were trained. */
extern const unsigned char kvr_salience_nano[];
extern const size_t kvr_salience_nano_bytes;
enum { NANO_HEADS = 3, NANO_HEAD_DIM = 64 };

struct kvr_salience_head {
    int64_t q_width, width, inputs, hidden, outputs;
    float *w1; /* [inputs,hidden] */
    float *b1; /* [hidden] */
    float *w2; /* [hidden] mean of the rows of fc2.weight [outputs,hidden] */
    double b2;
    int threads;
    float *z; /* [threads,hidden] */
};

bool kvr_salience_head_drawn(const char *which, int n_query_heads, int n_heads, int head_dim)
{
    const bool nano =
        n_query_heads == NANO_HEADS && n_heads == NANO_HEADS && head_dim == NANO_HEAD_DIM;

    return strcmp(which, KVR_SALIENCE_DRAWN) == 0 ||
           (strcmp(which, KVR_SALIENCE_AUTO) == 0 && !nano);
}

void kvr_salience_head_close(struct kvr_salience_head **head)
{
    if (!*head)
        return;
    free((*head)->w1);
    free((*head)->z);
    free(*head);
    *head = NULL;
}

/* Allocates one array for w1, b1 and w2, and another for z. */
static enum kvr_status make_room(struct kvr_salience_head *s)
{
    s->w1 = malloc((size_t)((s->inputs + 2) * s->hidden) * sizeof *s->w1);
    s->threads = omp_get_max_threads();
    s->z = malloc((size_t)(s->threads * s->hidden) * sizeof *s->z);
    if (!s->w1 || !s->z)
        return kvr_fail(KVR_ENOMEM,
                        "salience head: out of memory while allocating %lld x %lld weights",
                        (long long)s->inputs, (long long)s->hidden);
    s->b1 = s->w1 + s->inputs * s->hidden;
    s->w2 = s->b1 + s->hidden;
    return KVR_OK;
}

/* ---- random weights ------------------------------------------------------------------------ */

/* Draws random weights. The network has 2/9 as many hidden units as inputs, as in PaFu-KV (1024
 * hidden units, 4608 inputs). The weights' variances are 1 / inputs and 1 / hidden, so that hidden
 * units and outputs have a variance near 1. */
static enum kvr_status draw(struct kvr_salience_head *s, int seed)
{
    s->hidden = s->inputs * 2 / 9 > 8 ? s->inputs * 2 / 9 : 8;
    KVR_TRY(make_room(s));
    kvr_normal(s->w1, (size_t)(s->inputs * s->hidden), (uint64_t)seed, KVR_RNG_KEEP, 1, 0, 0);
    kvr_normal(s->w2, (size_t)s->hidden, (uint64_t)seed, KVR_RNG_KEEP, 2, 0, 0);
    for (int64_t i = 0; i < s->inputs * s->hidden; i++)
        s->w1[i] /= sqrtf((float)s->inputs);
    for (int64_t i = 0; i < s->hidden; i++) {
        s->w2[i] /= sqrtf((float)s->hidden);
        s->b1[i] = 0;
    }
    return KVR_OK;
}

/* ---- weights from a file ------------------------------------------------------------------- */

static enum kvr_status get(const struct kvr_st *f, const char *name, int n_dims,
                           const int64_t *shape, struct kvr_tensor *t, float **out)
{
    KVR_TRY(kvr_st_get_shaped(f, name, n_dims, shape, t));
    if (t->dtype != KVR_F32 && t->dtype != KVR_F16 && t->dtype != KVR_BF16)
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32, F16 or BF16",
                        kvr_st_path(f), name, kvr_dtype_name(t->dtype));
    *out = malloc((size_t)kvr_tensor_count(t) * sizeof **out);
    if (!*out)
        return kvr_fail(KVR_ENOMEM, "salience head: out of memory");
    kvr_to_f32(*out, t->data, t->dtype, (size_t)kvr_tensor_count(t));
    return KVR_OK;
}

static enum kvr_status take_first(struct kvr_salience_head *s, const struct kvr_st *f)
{
    struct kvr_tensor t;
    float *w = NULL, *b = NULL;
    enum kvr_status st = get(f, "fc1.weight", 2, (const int64_t[]){ -1, s->inputs }, &t, &w);

    if (st == KVR_OK) {
        s->hidden = t.shape[0];
        st = s->hidden > 0 ? make_room(s)
                           : kvr_fail(KVR_EFORMAT,
                                      "%s: tensor 'fc1.weight' has shape [0, %lld], need at least "
                                      "1 row (hidden unit)",
                                      kvr_st_path(f), (long long)s->inputs);
    }
    if (st == KVR_OK)
        st = get(f, "fc1.bias", 1, &s->hidden, &t, &b);
    for (int64_t j = 0; j < s->hidden && st == KVR_OK; j++) {
        s->b1[j] = b[j];
        for (int64_t i = 0; i < s->inputs; i++)
            s->w1[i * s->hidden + j] = w[j * s->inputs + i];
    }
    free(w);
    free(b);
    return st;
}

/* Reads the network's second layer (fc2) from the file. The score is the mean over the outputs of
 * W2 z + b2, so only the mean row of W2 and the mean of b2 are stored. */
static enum kvr_status take_second(struct kvr_salience_head *s, const struct kvr_st *f)
{
    struct kvr_tensor t;
    float *w = NULL, *b = NULL;
    enum kvr_status st = get(f, "fc2.weight", 2, (const int64_t[]){ -1, s->hidden }, &t, &w);

    if (st == KVR_OK) {
        s->outputs = t.shape[0];
        st = s->outputs > 0
                 ? KVR_OK
                 : kvr_fail(
                       KVR_EFORMAT,
                       "%s: tensor 'fc2.weight' has shape [0, %lld], need at least 1 row (output)",
                       kvr_st_path(f), (long long)s->hidden);
    }
    if (st == KVR_OK) {
        st = get(f, "fc2.bias", 1, &s->outputs, &t, &b);
    }
    for (int64_t j = 0; j < s->hidden && st == KVR_OK; j++) {
        double sum = 0;

        for (int64_t o = 0; o < s->outputs; o++)
            sum += w[o * s->hidden + j];
        s->w2[j] = (float)(sum / (double)s->outputs);
    }
    for (int64_t o = 0; o < s->outputs && st == KVR_OK; o++)
        s->b2 += b[o] / (double)s->outputs;
    free(w);
    free(b);
    return st;
}

static enum kvr_status check_finite(const struct kvr_salience_head *s, const struct kvr_st *f)
{
    for (int64_t i = 0; i < (s->inputs + 2) * s->hidden; i++)
        if (!isfinite(s->w1[i]))
            return kvr_fail(KVR_ENAN, "%s: tensor '%s' contains %g; weights must be finite",
                            kvr_st_path(f),
                            i < s->inputs * s->hidden         ? "fc1.weight"
                            : i < (s->inputs + 1) * s->hidden ? "fc1.bias"
                                                              : "fc2.weight",
                            (double)s->w1[i]);
    return isfinite(s->b2)
               ? KVR_OK
               : kvr_fail(KVR_ENAN, "%s: the mean of tensor 'fc2.bias' is %g, need a finite value",
                          kvr_st_path(f), s->b2);
}

static enum kvr_status read_file(struct kvr_salience_head *s, const char *which)
{
    struct kvr_st *f;
    enum kvr_status st;

    if (strcmp(which, KVR_SALIENCE_AUTO) == 0)
        KVR_TRY(kvr_st_open_memory(&f, kvr_salience_nano, kvr_salience_nano_bytes,
                                   "models/nano/salience.safetensors"));
    else
        KVR_TRY(kvr_st_open(&f, which));
    st = take_first(s, f);
    if (st == KVR_OK)
        st = take_second(s, f);
    if (st == KVR_OK)
        st = check_finite(s, f);
    kvr_st_close(&f);
    return st;
}

enum kvr_status kvr_salience_head_open(struct kvr_salience_head **out, const char *which,
                                       int n_query_heads, int n_heads, int head_dim, int seed)
{
    struct kvr_salience_head *s = calloc(1, sizeof *s);
    const bool drawn = kvr_salience_head_drawn(which, n_query_heads, n_heads, head_dim);
    enum kvr_status st;

    if (!s)
        return kvr_fail(KVR_ENOMEM, "salience head: out of memory");
    s->q_width = (int64_t)n_query_heads * head_dim;
    s->width = (int64_t)n_heads * head_dim;
    s->inputs = s->q_width + 2 * s->width;
    st = drawn ? draw(s, seed) : read_file(s, which);
    if (st != KVR_OK) {
        kvr_salience_head_close(&s);
        return kvr_fail_prefix(st, "salience head");
    }
    *out = s;
    return KVR_OK;
}

/* ---- evaluation ---------------------------------------------------------------------------- */

static void add_inputs(const struct kvr_salience_head *s, const float *x, int64_t n, const float *w,
                       float *z)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < s->hidden; j++)
            z[j] += x[i] * w[i * s->hidden + j];
}

static double head_score(const struct kvr_salience_head *s, const float *q, const float *k,
                         const float *v, float *z)
{
    double sum = s->b2;

    memcpy(z, s->b1, (size_t)s->hidden * sizeof *z);
    add_inputs(s, q, s->q_width, s->w1, z);
    add_inputs(s, k, s->width, s->w1 + s->q_width * s->hidden, z);
    add_inputs(s, v, s->width, s->w1 + (s->q_width + s->width) * s->hidden, z);
    for (int64_t j = 0; j < s->hidden; j++)
        sum += (double)s->w2[j] * z[j] / (1 + exp(-(double)z[j]));
    return sum;
}

void kvr_salience_head_score(const struct kvr_salience_head *head, const float *q, const float *k,
                             const float *v, int64_t n, float *score)
{
#pragma omp parallel for schedule(static) num_threads(head->threads)
    for (int64_t t = 0; t < n; t++)
        score[t] =
            (float)head_score(head, q + t * head->q_width, k + t * head->width, v + t * head->width,
                              head->z + omp_get_thread_num() * head->hidden);
}
