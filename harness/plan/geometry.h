/* geometry.h - finds a model's sizes (layers, heads, tokens per frame) by name. */
#ifndef KVR_PLAN_GEOMETRY_H
#define KVR_PLAN_GEOMETRY_H

#include "harness/cache/predict.h"
#include "harness/plan/config.h"

/* `name` is wan-1.3b, wan-14b, wan-5b, a model folder, or a JSON file with the keys of a model's
 * config.json. If one of the keys ffn_dim, freq_dim, text_dim, text_len and in_dim is absent, the
 * number of parameters is unknown and n_params is 0. */
enum kvr_status kvr_geometry_find(const char *name, struct kvr_geometry *out);
/* Like kvr_geometry_find, for a model reduced to its first n_layers layers, or for the whole model
 * if n_layers is 0. KVR_EINVAL: the model has fewer layers, or `name` is wan-1.3b, wan-14b or
 * wan-5b, which cannot be reduced. */
enum kvr_status kvr_geometry_find_part(const char *name, int n_layers, struct kvr_geometry *out);
/* Sets *out to the geometry of a sweep's model with n_layers layers. The geometry of a trace has
 * the sizes of attention, but no weights. */
enum kvr_status kvr_geometry_of(const struct kvr_config_model *m, int n_layers,
                                struct kvr_geometry *out);
/* Sets g->weight_bytes, the bytes per parameter, to 2 if this backend stores weights of this
 * compute type as BF16. CUDA does so for compute type BF16, and a CPU only if it has AMX. Any other
 * CPU stores weights as F32. */
void kvr_geometry_compute(struct kvr_geometry *g, enum kvr_backend backend, enum kvr_dtype compute);

#endif
