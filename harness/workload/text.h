/* text.h - the partial-prefill workload, in which a language model reads a text whose prefix is in
 * a method's KV cache.
 *
 *     KVR_TRY(kvr_tokens_open(&ids, "texts.safetensors", "gpl-3"));
 *     KVR_TRY(kvr_text_teacher(dev, model, &ids, n, NULL, &teacher));   once per model and text
 *     KVR_TRY(kvr_text_run(dev, scheme, &req, &result));                once per method and C
 *     kvr_text_result_free(&result);
 *     kvr_teacher_free(&teacher);
 *     kvr_tokens_close(&ids);
 *
 * The method compresses the prefix in the KV cache, but not the following chunk of C tokens. One
 * softmax covers prefix and chunk. Evaluation is teacher-forced: the prefix's keys and values come
 * from a forward pass over the whole text with a BF16 KV cache. A chunk's error therefore shows
 * only the effect of compressing that chunk's prefix. The prefix is encoded into the KV cache C
 * tokens at a time, as in generation.
 *
 * Chunks are grouped in bins by the length of their prefix. Prefixes of bin b have at least P =
 * first * 2^b tokens, where `first` is the request's shortest prefix in tokens. The chunks of bin b
 * start at P, P + C, P + 2 C and so on. All of them start below first * 2^(b + 1) and below P +
 * scored, where `scored` is the request's number of tokens to score per bin. The logits at position
 * t predict token t + 1, so the logits of the chunk [s, s + C) are scored against tokens s + 1 to
 * s + C, as far as the text has them. A chunk is scored if it ends within the text and the text has
 * token s + 1. A bin exists if its first chunk is scored.
 *
 *     nll   mean of -log p^(token);  p^ with the method, p the teacher's
 *     kl    mean of sum_v p(v) (log p(v) - log p^(v)), natural logarithm
 *     top1  fraction of positions where p^ and p have the same most likely token
 *     mass  mean share of a query's attention on the prefix, over queries, heads, layers */
#ifndef KVR_WORKLOAD_TEXT_H
#define KVR_WORKLOAD_TEXT_H

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/workload/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The token ids of one text, read from a safetensors file. */
struct kvr_tokens {
    struct kvr_st *file;
    const int32_t *id; /* token ids [n], in the mapped file or in `own`; valid until
                        * kvr_tokens_close */
    int32_t *own;      /* allocated copy of the token ids as I32, or NULL if the file's ids are I32
                        * already */
    int n;
    char sha256[KVR_SHA256_HEX]; /* SHA-256 of the token ids as I32 */
};
/* Reads the token ids from the tensor named `tensor`, which must be [n] or [1,n] of any integer
 * type with ids in 0..2^31-1. The function has no model, so it cannot check that the ids are in a
 * model's vocabulary; kvr_lm_forward() checks this. Error messages name the file and the tensor.
 * After an error there is nothing to close. */
enum kvr_status kvr_tokens_open(struct kvr_tokens *t, const char *path, const char *tensor);
void kvr_tokens_close(struct kvr_tokens *t); /* accepts {0} */

/* The teacher: keys, values and hidden states of a forward pass over a text with a BF16 KV
 * cache. */
struct kvr_teacher {
    int n;               /* number of tokens */
    kvr_bf16 *k, *v;     /* [L,n,n_kv_heads,D]: keys after RoPE, and values */
    float *hidden;       /* [n,d]: hidden states of width d, from which kvr_lm_logits() computes
                          * logits */
    struct kvr_st *file; /* mapped file that contains k, v and hidden, or NULL if malloc() allocated
                          * them */
};

/* Computes the teacher's keys, values and hidden states for the first n tokens. If `path` is not
 * NULL and the file exists, reads the result from this file instead. If the file does not exist,
 * writes the result to it. The path must differ between models, texts and builds, because the
 * function checks only the shapes of the file's tensors. */
enum kvr_status kvr_text_teacher(struct kvr_dev *dev, struct kvr_model *m,
                                 const struct kvr_tokens *t, int n, const char *path,
                                 struct kvr_teacher *out);
void kvr_teacher_free(struct kvr_teacher *t); /* accepts {0} */

struct kvr_text_request {
    struct kvr_model *model;
    const struct kvr_tokens *tokens;
    const struct kvr_teacher *teacher; /* teacher of the first teacher->n tokens; the workload uses
                                        * only these tokens */
    int chunk;                         /* C */
    int first, scored;                 /* first: shortest prefix in tokens; scored: number of tokens
                                        * to score per bin */
    int window_tokens;                 /* 0 = all */
    int sink_tokens;
    bool evict;
    enum kvr_path path;
    enum kvr_attend_as attend;
};

enum { KVR_TEXT_MAX_BINS = 24 };

/* Mean scores of the chunks in one bin, that is, with a similar prefix length, or in all bins. */
struct kvr_text_bin {
    int prefix;                 /* P */
    int64_t tokens;             /* scored tokens */
    double nll, kl, top1, mass; /* means of nll, kl, top1 and mass (defined at the beginning of this
                                 * file) over the scored tokens */
};

struct kvr_text_result {
    int n_bins;
    struct kvr_text_bin bin[KVR_TEXT_MAX_BINS];
    struct kvr_text_bin all;        /* prefix 0 */
    struct kvr_rollout_result cost; /* time and memory of the run, in total and per pass; the field
                                     * rgb is NULL */
};

/* Whether the chunk of tokens [from, from + chunk) of a text of n tokens is scored: it ends within
 * the text, and its first token has a next token. */
bool kvr_text_is_scored(int64_t n, int64_t from, int chunk);

/* Returns the number of bins in which the chunks of a text of n tokens are grouped by prefix
 * length. prefix[b] receives the number of tokens of bin b's shortest prefix; `prefix` may be
 * NULL. */
int kvr_text_bins(const struct kvr_text_request *req, int n, int prefix[KVR_TEXT_MAX_BINS]);

/* Runs the workload. The times in the result exclude the time for computing scores. Returns
 * KVR_EINVAL if no chunk after the shortest prefix is scored. Returns KVR_EUNSUPPORTED if `dev` is
 * not the CPU, or if the text exceeds the model's context length. */
enum kvr_status kvr_text_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_text_request *req, kvr_progress_fn *progress,
                             void *progress_ctx, struct kvr_text_result *out);
void kvr_text_result_free(struct kvr_text_result *r);

/* Computes the mean negative log-likelihood of tokens 1 to n - 1, each given all tokens before it,
 * for comparison with values that other programs report. The function runs one forward pass over
 * the whole text with F32 keys and values, so no method compresses them. n must be at most the
 * model's context length. *top1 receives the top-1 accuracy: the fraction of these tokens that
 * equal the model's most likely next token. */
enum kvr_status kvr_text_nll(struct kvr_dev *dev, struct kvr_model *m, const int32_t *ids, int n,
                             double *nll, double *top1);

#ifdef __cplusplus
}
#endif
#endif
