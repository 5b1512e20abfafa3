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
/* Finds the sizes of `m`, a model or trace of a sweep. If n_layers is not 0, the result is for the
 * first n_layers layers only. For a trace, the number of parameters is 0, because a trace has no
 * weights. */
enum kvr_status kvr_geometry_of(const struct kvr_config_model *m, int n_layers,
                                struct kvr_geometry *out);
/* Sets g->weight_bytes, the bytes per parameter, to 2 if `compute` is BF16 and `backend` stores
 * BF16 weights. The CUDA backend stores BF16 weights. The CPU backend does so only if the CPU has
 * AMX, and otherwise stores F32 weights. */
void kvr_geometry_compute(struct kvr_geometry *g, enum kvr_backend backend, enum kvr_dtype compute);

#endif
