/* text.h - partial prefill: a language model reads a text whose beginning is cached by a method.
 *
 *     KVR_TRY(kvr_tokens_open(&ids, "texts.safetensors", "gpl-3"));
 *     KVR_TRY(kvr_text_teacher(dev, model, &ids, n, NULL, &teacher));   once per model and text
 *     KVR_TRY(kvr_text_run(dev, scheme, &req, &result));                once per method and chunk
 *     kvr_text_result_free(&result);
 *     kvr_teacher_free(&teacher);
 *     kvr_tokens_close(&ids);
 *
 * A prefix is in the cache, coded by the method; a chunk of C tokens behind it is not, and both
 * share one softmax. All is teacher-forced: the method codes the keys and values of a forward of the
 * whole text through a BF16 cache, so a chunk shows the effect of its own coded prefix alone. The cache takes its tokens C at a time, as they would
 * have come.
 *
 * Bin b begins with prefixes of P = first 2^b tokens. Chunks of bin b begin at P, P + C, ...,
 * before P + scored and before the next bin's P; bins are there while their first chunk is in the
 * text. The logits at t - 1 predict token t: a chunk [s, s + C) scores tokens s + 1 .. s + C, up to the
 * end of the text.
 *
 *     nll   mean of -log p^(token);  p^ with the method, p the teacher's
 *     kl    mean of sum_v p(v) (log p(v) - log p^(v)), natural logarithm
 *     top1  share of places where p^ and p are highest at the same token
 *     mass  mean share of a query's attention that falls on the prefix, over queries, heads, layers
 */
#ifndef KVR_WORKLOAD_TEXT_H
#define KVR_WORKLOAD_TEXT_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/workload/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Token ids of one text, out of a safetensors file. */
struct kvr_tokens {
    struct kvr_st *file;
    const int32_t *id; /* in the mapped file, until it is closed, or in `own` */
    int32_t *own;      /* of ids that the file has in another type; NULL */
    int n;
    char sha256[KVR_SHA256_HEX]; /* of the ids' bytes as I32 */
};
/* Ids of any integer type [n] or [1,n]: each must be in 0..2^31-1; a model checks them against its
 * vocabulary. KVR_EIO, KVR_EFORMAT, KVR_ENOTFOUND name file and tensor; on failure there is nothing to
 * close. */
enum kvr_status kvr_tokens_open(struct kvr_tokens *t, const char *path, const char *tensor);
void kvr_tokens_close(struct kvr_tokens *t); /* accepts {0} */

/* A forward of the text through a BF16 cache. */
struct kvr_teacher {
    int n;               /* tokens */
    kvr_bf16 *k, *v;     /* [L,n,n_kv_heads,D]: keys rotated */
    float *hidden;       /* [n,d]: what kvr_lm_logits takes */
    struct kvr_st *file; /* they lie in it; NULL: in memory of their own */
};

/* The first n tokens. `path` (NULL: none) is where it is kept: read when it is there, else written.
 * Its name must tell model, text and build apart; what it holds is checked for shape alone. */
enum kvr_status kvr_text_teacher(struct kvr_dev *dev, struct kvr_model *m,
                                 const struct kvr_tokens *t, int n, const char *path,
                                 struct kvr_teacher *out);
void kvr_teacher_free(struct kvr_teacher *t); /* accepts {0} */

struct kvr_text_request {
    struct kvr_model *model;
    const struct kvr_tokens *tokens;
    const struct kvr_teacher *teacher; /* its n is the text's length */
    int chunk;                         /* C */
    int first, scored;                 /* of the bins */
    int window_tokens;                 /* 0 = all */
    int sink_tokens;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
};

enum { KVR_TEXT_MAX_BINS = 24 };

struct kvr_text_bin {
    int prefix;                 /* P */
    int64_t tokens;             /* scored */
    double nll, kl, top1, mass; /* means over them */
};

struct kvr_text_result {
    int n_bins;
    struct kvr_text_bin bin[KVR_TEXT_MAX_BINS];
    struct kvr_text_bin all;        /* prefix 0 */
    struct kvr_rollout_result cost; /* what costs: times, bytes, passes; no frames */
};

/* Bins of n tokens: their number, and the first prefix of each (may be NULL). */
int kvr_text_bins(const struct kvr_text_request *req, int n, int prefix[KVR_TEXT_MAX_BINS]);

/* KVR_EINVAL: no bin has room; KVR_EUNSUPPORTED: not on this device. Scoring is in no time. */
enum kvr_status kvr_text_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_text_request *req, kvr_progress_fn *progress,
                             void *progress_ctx, struct kvr_text_result *out);
void kvr_text_result_free(struct kvr_text_result *r);

/* Mean NLL of tokens 1 .. n - 1, each given all before it, through one uncoded chunk in F32: what
 * other programs call the negative logarithm of the likelihood. n at most the model's context. top1: the
 * share of these tokens that are the most likely one. */
enum kvr_status kvr_text_nll(struct kvr_dev *dev, struct kvr_model *m, const int32_t *ids, int n,
                             double *nll, double *top1);

#ifdef __cplusplus
}
#endif
#endif
