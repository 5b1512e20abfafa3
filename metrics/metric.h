/* metric.h - full-reference and no-reference video metrics, with one file and one line of
 * metrics.def per metric.
 *
 *     struct kvr_metric_value v;
 *     KVR_TRY(kvr_metric_compute(kvr_metric_find("psnr"), &ref, &test, &v));
 *     ... v.value, v.series[v.first .. v.n_series) ...
 *     kvr_metric_value_free(&v);
 *
 * Metrics read raw 8-bit RGB frames, before any video encoder. If a metric cannot be computed,
 * `missing` gives the reason, and the store records NULL. */
#ifndef KVR_METRICS_METRIC_H
#define KVR_METRICS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/frames.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of the prompt for each chunk, and the network that checks whether the video shows them.
 * Borrowed. */
struct kvr_metric_prompt {
    int n_chunks, n_slots;
    const char *const *word; /* words of the prompt [n_chunks, n_slots], from the model's
                              * vocabulary */
    const char *probe;       /* path of the network's safetensors file, or NULL if there is no
                              * network */
};

/* Input of a metric. Borrowed. */
struct kvr_metric_input {
    const struct kvr_frames *ref, *test;
    int chunk; /* number of decoded frames per chunk; 0: unknown */
    int lead;  /* number of frames that the first chunk lacks, because a VAE decodes the first
                * latent frame to fewer frames */
    const char *lpips_weights; /* path of the LPIPS weights, a safetensors file, or NULL if there
                                * are no weights */
    const char
        *stlpips_weights; /* path of the ST-LPIPS weights (the authors' .pth file, or the same
                           * tensors in another format), or NULL if there are no weights */
    const struct kvr_metric_prompt *prompt; /* NULL: unknown */
};

struct kvr_metric_value {
    double value;      /* pooled value, valid only if `missing` is "" */
    double extra;      /* additional result of the metric, if the metric has one (psnr: number of
                        * identical frames) */
    int n_series;      /* number of entries of `series` (one per frame), or 0 for a metric without
                        * per-frame values */
    int first;         /* first frame that has a value; earlier entries of the series are NaN */
    double *series;    /* per frame, owned */
    char missing[128]; /* reason why there is no value, or an empty string */
};

/* How the per-frame values of a metric are pooled into one value. */
enum kvr_pool {
    KVR_POOL_MEAN,
    KVR_POOL_DB,  /* PSNR of the mean squared error over all frames, at most `hi` dB */
    KVR_POOL_SUM, /* a count */
};

struct kvr_metric {
    const char *name;  /* column name: "psnr" */
    const char *title; /* one line */
    const char *unit;  /* "dB", "1" */
    int direction;     /* +1 if higher values are better, -1 if lower values are better */
    double lo, hi;     /* valid range of `value` and of the entries of `series`; other results are
                        * errors */
    int version;       /* version of the metric, which is part of the cell's key; increment it when
                        * a change to the code alters values */
    bool alone;        /* true for a no-reference metric, which reads the test video only */
    bool usual;        /* computed by default */
    bool whole;        /* true if the value is defined for a whole video and not pooled from
                        * per-frame values */
    bool truth;        /* true if the metric compares generated frames with the recorded frames that
                        * continue the given clip, instead of with the BF16 rollout */
    enum kvr_pool pool;
    const char *source; /* where the definition of the metric comes from, such as a publication */
    enum kvr_status (*compute)(const struct kvr_metric_input *in, struct kvr_metric_value *out);
};

/* Defines a full-reference metric twice, as NAME, which compares with the reference, and as
 * NAME_truth, which compares with the recorded frames. The remaining arguments, from `unit` on, are
 * common to NAME and NAME_truth. */
#define KVR_METRIC_AND_TRUTH(ident, label, about, ...)                                             \
    const struct kvr_metric kvr_metric_##ident = { .name = label, .title = about, __VA_ARGS__ };   \
    const struct kvr_metric kvr_metric_##ident##_truth = {                                         \
        .name = label "_truth", .title = about "; against the truth", .truth = true, __VA_ARGS__   \
    }

extern const struct kvr_metric *const kvr_metrics[];       /* NULL-terminated; without NAME_truth */
extern const struct kvr_metric *const kvr_truth_metrics[]; /* the NAME_truth; NULL-terminated */
const struct kvr_metric *kvr_metric_find(const char *name); /* in either list */
/* Returns the variant NAME_truth, which compares with recorded frames, of the metric m = NAME.
 * Returns NULL if there is no such variant, as for no-reference metrics. */
const struct kvr_metric *kvr_metric_truth_of(const struct kvr_metric *m);

/* Computes the metric m of the video in->test, against the video in->ref if m is a full-reference
 * metric. Fails with KVR_EINVAL if the shapes of the videos differ; the message gives both shapes.
 * Also fails if the result is outside the metric's valid range. */
enum kvr_status kvr_metric_measure(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                   struct kvr_metric_value *out);
/* Like kvr_metric_measure, for metrics that need only the videos `ref` and `test`, without chunk
 * length, weights or prompt. */
enum kvr_status kvr_metric_compute(const struct kvr_metric *m, const struct kvr_frames *ref,
                                   const struct kvr_frames *test, struct kvr_metric_value *out);
void kvr_metric_value_free(struct kvr_metric_value *v);

/* Pools the per-frame values of frames [from, to), ignoring frames that have no value. Returns NaN
 * if no frame has a value. */
double kvr_metric_pool(const struct kvr_metric *m, const double *series, int from, int to);

#ifdef __cplusplus
}
#endif
#endif
