/* metric.h - full-reference and no-reference video metrics; one metric per file, one line in
 * metrics.def.
 *
 *     struct kvr_metric_value v;
 *     KVR_TRY(kvr_metric_compute(kvr_metric_find("psnr"), &ref, &test, &v));
 *     ... v.value, v.series[v.first .. v.n_series) ...
 *     kvr_metric_value_free(&v);
 *
 * Frames are raw 8-bit RGB, before any video encoder. If a value cannot be computed, `missing`
 * gives the reason and the store keeps NULL. */
#ifndef KVR_METRICS_METRIC_H
#define KVR_METRICS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/frames.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The prompt's words per chunk, and the network that checks them. Borrowed. */
struct kvr_metric_prompt {
    int n_chunks, n_slots;
    const char *const *word; /* [n_chunks, n_slots], from the model's vocabulary */
    const char *probe;       /* path of the network's safetensors file; NULL: no network */
};

/* Input of a metric. Borrowed. */
struct kvr_metric_input {
    const struct kvr_frames *ref, *test;
    int chunk; /* frames generated together; 0: unknown */
    int lead;  /* frames missing from the first chunk (a VAE's first latent frame) */
    const char *lpips_weights; /* path of a safetensors file; NULL: no weights */
    const char
        *stlpips_weights; /* the authors' .pth, or the same tensors in another format; NULL: no
                           * weights */
    const struct kvr_metric_prompt *prompt; /* NULL: unknown */
};

struct kvr_metric_value {
    double value;      /* pooled; invalid if missing[0] != 0 */
    double extra;      /* the metric's second number, if any (psnr: identical frames) */
    int n_series;      /* number of frames, or 0 without a series */
    int first;         /* first frame with a value; earlier entries of the series are NaN */
    double *series;    /* per frame, owned */
    char missing[128]; /* why there is no value; "" if there is one */
};

/* How per-frame values are pooled. */
enum kvr_pool {
    KVR_POOL_MEAN,
    KVR_POOL_DB,  /* decibels of the mean squared error; `hi` is the cap */
    KVR_POOL_SUM, /* a count */
};

struct kvr_metric {
    const char *name;  /* column name: "psnr" */
    const char *title; /* one line */
    const char *unit;  /* "dB", "1" */
    int direction;     /* +1: higher is better, -1: lower is better */
    double lo, hi;     /* valid range of value and series, checked before storing */
    int version;       /* part of the cell's key; changes when the number changes */
    bool alone;        /* no-reference: uses the test video only */
    bool usual;        /* computed by default */
    bool whole;        /* defined on the whole video: the value is not pooled from the series */
    bool truth;        /* compares generated frames with ground-truth frames that continue the given
                        * clip, instead of with the BF16 rollout */
    enum kvr_pool pool;
    const char *source; /* source of the definition */
    enum kvr_status (*compute)(const struct kvr_metric_input *in, struct kvr_metric_value *out);
};

/* A full-reference metric is defined twice: NAME, and NAME_truth against ground truth. Arguments
 * common to both: everything from `unit` on. */
#define KVR_METRIC_AND_TRUTH(ident, label, about, ...)                                             \
    const struct kvr_metric kvr_metric_##ident = { .name = label, .title = about, __VA_ARGS__ };   \
    const struct kvr_metric kvr_metric_##ident##_truth = {                                         \
        .name = label "_truth", .title = about "; against the truth", .truth = true, __VA_ARGS__   \
    }

extern const struct kvr_metric *const kvr_metrics[];       /* NULL-terminated; without NAME_truth */
extern const struct kvr_metric *const kvr_truth_metrics[]; /* the NAME_truth; NULL-terminated */
const struct kvr_metric *kvr_metric_find(const char *name); /* in either list */
/* NAME_truth of NAME; NULL if there is none, as for no-reference metrics. */
const struct kvr_metric *kvr_metric_truth_of(const struct kvr_metric *m);

/* Checks that the shapes agree (KVR_EINVAL gives both), computes, checks the range. */
enum kvr_status kvr_metric_measure(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                   struct kvr_metric_value *out);
/* kvr_metric_measure for two videos without other information. */
enum kvr_status kvr_metric_compute(const struct kvr_metric *m, const struct kvr_frames *ref,
                                   const struct kvr_frames *test, struct kvr_metric_value *out);
void kvr_metric_value_free(struct kvr_metric_value *v);

/* Pools the values of frames [from, to); frames without a value are skipped. NaN if no frame has a
 * value. */
double kvr_metric_pool(const struct kvr_metric *m, const double *series, int from, int to);

#ifdef __cplusplus
}
#endif
#endif
