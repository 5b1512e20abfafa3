/* geometry.h - a model's sizes by name: wan-1.3b, wan-14b, wan-5b, a model folder, or a JSON file. */
#ifndef KVR_PLAN_GEOMETRY_H
#define KVR_PLAN_GEOMETRY_H

#include "harness/cache/predict.h"
#include "harness/plan/config.h"

/* A file has the keys of a model's config.json. Keys that only weights need (ffn_dim,
 * freq_dim, text_dim, text_len, in_dim) may be absent; n_params is then 0. */
enum kvr_status kvr_geometry_find(const char *name, struct kvr_geometry *out);
/* The geometry of a model's first n_layers layers; 0: all. KVR_EINVAL: more layers than the model
 * has, or a built-in geometry without sizes per layer. */
enum kvr_status kvr_geometry_find_part(const char *name, int n_layers, struct kvr_geometry *out);
/* The geometry of a sweep's model; for a trace, only the sizes of attention, without weights. */
enum kvr_status kvr_geometry_of(const struct kvr_config_model *m, int n_layers,
                                struct kvr_geometry *out);
/* Sets the weights' size for this backend and compute type: CUDA stores the type itself; the CPU stores rounded
 * values as floats. */
void kvr_geometry_compute(struct kvr_geometry *g, enum kvr_backend backend, enum kvr_dtype compute);

#endif
