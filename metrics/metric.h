/* metric.h - how far one video is from another, or how it is by itself; one metric per file,
 * one line in metrics.def.
 *
 *     struct kvr_metric_value v;
 *     KVR_TRY(kvr_metric_compute(kvr_metric_find("psnr"), &ref, &test, &v));
 *     ... v.value, v.series[v.first .. v.n_series) ...
 *     kvr_metric_value_free(&v);
 *
 * Frames are raw 8-bit RGB, before any video encoder. A value that cannot be had is not a
 * number: `missing` says why and the store keeps NULL. */
#ifndef KVR_METRICS_METRIC_H
#define KVR_METRICS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/frames.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the prompt says at each chunk, and the network that looks for it. Borrowed. */
struct kvr_metric_prompt {
    int n_chunks, n_slots;
    const char *const *word; /* [n_chunks, n_slots], of the model's vocabulary */
    const char *probe;       /* path of a safetensors file; NULL: there is none */
};

/* What a metric sees. Borrowed. */
struct kvr_metric_input {
    const struct kvr_frames *ref, *test;
    int chunk;                 /* frames generated together; 0: not known */
    int lead;                  /* so many fewer in the first chunk (a VAE's first latent frame) */
    const char *lpips_weights; /* path of a safetensors file; NULL: there is none */
    const char
        *stlpips_weights; /* of the authors' .pth, or the same tensors otherwise; NULL: none */
    const struct kvr_metric_prompt *prompt; /* NULL: not known */
};

struct kvr_metric_value {
    double value;      /* pooled; meaningless when missing[0] != 0 */
    double extra;      /* metric's second number where it has one (psnr: identical frames) */
    int n_series;      /* frames, or 0 */
    int first;         /* frames before it have no value: NaN in the series */
    double *series;    /* per frame, owned */
    char missing[128]; /* "" or the reason */
};

/* How the values of several frames become one. */
enum kvr_pool {
    KVR_POOL_MEAN,
    KVR_POOL_DB,  /* decibels of the mean of squared errors; `hi` is the cap */
    KVR_POOL_SUM, /* a count */
};

struct kvr_metric {
    const char *name;  /* column name: "psnr" */
    const char *title; /* one line */
    const char *unit;  /* "dB", "1" */
    int direction;     /* +1: higher is better, -1: lower is better */
    double lo, hi;     /* valid range of value and series, checked before anything is stored */
    int version;       /* part of the cell's key: changes when the number changes */
    bool alone;        /* looks at the test video and not at the reference */
    bool usual;        /* computed where nobody says which */
    bool whole;        /* of the video as a whole: its value is no pool of its series */
    bool truth;        /* against frames of the world that a clip goes on from, and not against the
                          BF16 rollout; over the frames that were generated */
    enum kvr_pool pool;
    const char *source; /* where the definition comes from */
    enum kvr_status (*compute)(const struct kvr_metric_input *in, struct kvr_metric_value *out);
};

/* What compares with a reference is defined twice: NAME, and NAME_truth, the same number against
 * the truth. Of both: everything from `unit` on. */
#define KVR_METRIC_AND_TRUTH(ident, label, about, ...)                                             \
    const struct kvr_metric kvr_metric_##ident = { .name = label, .title = about, __VA_ARGS__ };   \
    const struct kvr_metric kvr_metric_##ident##_truth = {                                         \
        .name = label "_truth", .title = about "; against the truth", .truth = true, __VA_ARGS__   \
    }

extern const struct kvr_metric *const kvr_metrics[];        /* NULL-terminated; no truth */
extern const struct kvr_metric *const kvr_truth_metrics[];  /* the NAME_truth; NULL-terminated */
const struct kvr_metric *kvr_metric_find(const char *name); /* of either */
/* NAME_truth of NAME; NULL where there is none, as of metrics that look at the test video alone. */
const struct kvr_metric *kvr_metric_truth_of(const struct kvr_metric *m);

/* Checks that the shapes agree (KVR_EINVAL says both), computes, checks the range. */
enum kvr_status kvr_metric_measure(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                   struct kvr_metric_value *out);
/* The same of two videos of which nothing else is known. */
enum kvr_status kvr_metric_compute(const struct kvr_metric *m, const struct kvr_frames *ref,
                                   const struct kvr_frames *test, struct kvr_metric_value *out);
void kvr_metric_value_free(struct kvr_metric_value *v);

/* Values of frames [from, to) as one; those without a value are left out. NaN when none has. */
double kvr_metric_pool(const struct kvr_metric *m, const double *series, int from, int to);

#ifdef __cplusplus
}
#endif
#endif
