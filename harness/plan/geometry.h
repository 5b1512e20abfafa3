/* geometry.h - a model's sizes by name: wan-1.3b, wan-14b, wan-5b, a model folder, or a JSON file. */
#ifndef KVR_PLAN_GEOMETRY_H
#define KVR_PLAN_GEOMETRY_H

#include "harness/cache/predict.h"
#include "harness/plan/config.h"

/* A file has the keys of a model's config.json. Keys that only weights need (ffn_dim,
 * freq_dim, text_dim, text_len, in_dim) may be absent; n_params is then 0. */
enum kvr_status kvr_geometry_find(const char *name, struct kvr_geometry *out);
/* Its first n_layers alone; 0: all. KVR_EINVAL: more than it has, or of a geometry that is built in
 * and not known in parts. */
enum kvr_status kvr_geometry_find_part(const char *name, int n_layers, struct kvr_geometry *out);
/* The same of a sweep's model; of a trace, what attention needs of one, and no weights. */
enum kvr_status kvr_geometry_of(const struct kvr_config_model *m, int n_layers,
                                struct kvr_geometry *out);
/* With the weights as a backend holds them that computes in this type: a device in the type itself;
 * the CPU keeps floats, whose values it has rounded. */
void kvr_geometry_compute(struct kvr_geometry *g, enum kvr_backend backend, enum kvr_dtype compute);

#endif
