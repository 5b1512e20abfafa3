/* text.h - partial prefill: a language model reads a text whose prefix is in a method's cache.
 *
 *     KVR_TRY(kvr_tokens_open(&ids, "texts.safetensors", "gpl-3"));
 *     KVR_TRY(kvr_text_teacher(dev, model, &ids, n, NULL, &teacher));   once per model and text
 *     KVR_TRY(kvr_text_run(dev, scheme, &req, &result));                once per method and chunk
 *     kvr_text_result_free(&result);
 *     kvr_teacher_free(&teacher);
 *     kvr_tokens_close(&ids);
 *
 * The prefix is in the cache, coded by the method; the following chunk of C tokens is uncoded. Both
 * share one softmax. Evaluation is teacher-forced: the method codes the keys and values of a
 * forward of the whole text through a BF16 cache, so a chunk shows the effect of its own coded
 * prefix alone. The cache commits C tokens at a time, as in generation.
 *
 * Bin b starts at a prefix of P = first 2^b tokens. Its chunks start at P, P + C, ..., below P +
 * scored and below the next bin's P; a bin exists if its first chunk is within the text. The logits
 * at t - 1 predict token t: a chunk [s, s + C) scores tokens s + 1 .. s + C, up to the end of the
 * text.
 *
 *     nll   mean of -log p^(token);  p^ with the method, p the teacher's
 *     kl    mean of sum_v p(v) (log p(v) - log p^(v)), natural logarithm
 *     top1  share of positions where p^ and p have the same most likely token
 *     mass  mean share of a query's attention on the prefix, over queries, heads, layers */
#ifndef KVR_WORKLOAD_TEXT_H
#define KVR_WORKLOAD_TEXT_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/workload/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Token ids of one text in a safetensors file. */
struct kvr_tokens {
    struct kvr_st *file;
    const int32_t *id; /* in the mapped file until it is closed, or in `own` */
    int32_t *own;      /* ids converted from another type; NULL: none were converted */
    int n;
    char sha256[KVR_SHA256_HEX]; /* of the ids as I32 */
};
/* Ids of any integer type, [n] or [1,n], in 0..2^31-1; a model checks them against its vocabulary.
 * KVR_EIO, KVR_EFORMAT and KVR_ENOTFOUND give file and tensor; on failure there is nothing to
 * close. */
enum kvr_status kvr_tokens_open(struct kvr_tokens *t, const char *path, const char *tensor);
void kvr_tokens_close(struct kvr_tokens *t); /* accepts {0} */

/* Result of a forward of the text through a BF16 cache. */
struct kvr_teacher {
    int n;               /* tokens */
    kvr_bf16 *k, *v;     /* [L,n,n_kv_heads,D]: keys after RoPE */
    float *hidden;       /* [n,d]: input of kvr_lm_logits */
    struct kvr_st *file; /* file that contains these arrays; NULL: they are in separate memory */
};

/* For the first n tokens. `path` (may be NULL): a cache file, which is read if it exists and
 * written otherwise. Its name must identify model, text and build; only the shape of its content is
 * checked. */
enum kvr_status kvr_text_teacher(struct kvr_dev *dev, struct kvr_model *m,
                                 const struct kvr_tokens *t, int n, const char *path,
                                 struct kvr_teacher *out);
void kvr_teacher_free(struct kvr_teacher *t); /* accepts {0} */

struct kvr_text_request {
    struct kvr_model *model;
    const struct kvr_tokens *tokens;
    const struct kvr_teacher *teacher; /* its n is the text's length */
    int chunk;                         /* C */
    int first, scored;                 /* see bins above */
    int window_tokens;                 /* 0 = all */
    int sink_tokens;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
};

enum { KVR_TEXT_MAX_BINS = 24 };

struct kvr_text_bin {
    int prefix;                 /* P */
    int64_t tokens;             /* scored tokens */
    double nll, kl, top1, mass; /* means over the scored tokens */
};

struct kvr_text_result {
    int n_bins;
    struct kvr_text_bin bin[KVR_TEXT_MAX_BINS];
    struct kvr_text_bin all;        /* prefix 0 */
    struct kvr_rollout_result cost; /* times, bytes, passes; no frames */
};

/* Number of bins for n tokens, and the prefix of each (may be NULL). */
int kvr_text_bins(const struct kvr_text_request *req, int n, int prefix[KVR_TEXT_MAX_BINS]);

/* KVR_EINVAL: no bin fits the text; KVR_EUNSUPPORTED: not on this device. Times exclude scoring. */
enum kvr_status kvr_text_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_text_request *req, kvr_progress_fn *progress,
                             void *progress_ctx, struct kvr_text_result *out);
void kvr_text_result_free(struct kvr_text_result *r);

/* Mean NLL of tokens 1 .. n - 1, each given all previous ones, in one uncoded F32 chunk: the
 * negative log-likelihood as other programs report it. n is at most the model's context length.
 * top1: share of these tokens that are the most likely one. */
enum kvr_status kvr_text_nll(struct kvr_dev *dev, struct kvr_model *m, const int32_t *ids, int n,
                             double *nll, double *top1);

#ifdef __cplusplus
}
#endif
#endif
