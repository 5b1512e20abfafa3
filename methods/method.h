/* method.h - a cache method is a row of parts.
 *
 *     const struct kvr_method *m = kvr_method_find("RTN_INT4");
 *     struct kvr_plan *p;
 *     KVR_TRY(kvr_plan_open(&p, "RTN_INT4@study", opts, n_opts));
 *     ... kvr_cache_open(&cache, dev, p, &shape) ...
 *     kvr_plan_close(&p);
 *
 * Rows live in methods.def. A new method is a row there; a new part is a file. */
#ifndef KVR_METHODS_METHOD_H
#define KVR_METHODS_METHOD_H

#include "methods/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_reading { KVR_INTENDED, KVR_STUDY };

/* When coding happens. */
enum kvr_cadence {
    KVR_CADENCE_CLEAN, /* at the clean pass of a chunk, once, and never again */
    KVR_CADENCE_PASS,  /* after every pass; the whole cache is decoded and coded again */
};

struct kvr_method {
    const char *name;   /* as the study writes it: RTN_INT4 */
    const char *family; /* colour of the plots: RTN, KIVI, ... */
    const char *title;  /* one line */
    const char *paper;  /* citation */
    bool study;         /* one of the 33 names */
    const char *k, *v;  /* codec pipelines */
};

/* All methods, in the order of methods.def. */
extern const struct kvr_method *const kvr_methods[]; /* NULL-terminated */
const struct kvr_method *kvr_method_find(const char *name); /* NULL when unknown */
/* KVR_ENOTFOUND with the nearest name. */
enum kvr_status kvr_method_require(const struct kvr_method **out, const char *name);

struct kvr_setting {
    const char *name, *value; /* "bits", "4"; "k.group", "32" */
};

/* A method with its reading and options settled: what a cache is opened with. */
struct kvr_plan {
    const struct kvr_method *method;
    enum kvr_reading reading;
    char name[96]; /* "RTN_INT4", "RTN_INT4@study" */
    enum kvr_cadence cadence;
    struct kvr_codec *k, *v;
};

/* `spec` is NAME, NAME@study or NAME@intended. */
enum kvr_status kvr_plan_open(struct kvr_plan **out, const char *spec,
                              const struct kvr_setting *settings, int n_settings);
void kvr_plan_close(struct kvr_plan **p);

/* Can this plan run on this shape? Refuses with a reason. */
enum kvr_status kvr_plan_check(const struct kvr_plan *p, int n_heads, int head_dim);

/* Bits per stored scalar, K and V averaged, side information included, no padding; < 0 when
 * it depends on the data. */
double kvr_plan_bits(const struct kvr_plan *p, int n_heads, int head_dim);

#ifdef __cplusplus
}
#endif
#endif
