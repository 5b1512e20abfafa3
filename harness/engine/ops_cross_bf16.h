/* ops_cross_bf16.h - cross-attention on the CPU, with BF16 matrix products on AMX tiles.
 *
 *     if (kvr_cross_tiles(c)) { kvr_cross_bf16_pack(c, k, v); kvr_cross_bf16_attend(r, c, q, out); }
 *
 * The kernels and their error bound are those of self-attention (harness/cache/attend_bf16.h).
 * Scaled queries q / sqrt(D), keys, values and softmax weights are rounded to BF16; accumulation is
 * F32. For tests, these functions also run on a CPU without AMX, as plain C. */
#ifndef KVR_ENGINE_OPS_CROSS_BF16_H
#define KVR_ENGINE_OPS_CROSS_BF16_H

#include "harness/engine/ops.h"

/* Minimum and maximum head_dim of the BF16 kernels. Cross-attention of narrower and wider heads is
 * computed in F32. The maximum bounds the size of buffers on the stack. */
enum { KVR_CROSS_BF16_NARROWEST = 16, KVR_CROSS_BF16_WIDEST = 256 };

/* Whether cross-attention over the prompt `c` runs in BF16, that is, layers compute in BF16, the
 * CPU has AMX, and head_dim is 16 to 256. */
bool kvr_cross_tiles(const struct kvr_cross *c);

/* Packs k, v [n_keys, H*D] into c as BF16 panels, which have the layout of an AMX operand
 * (attend_bf16.h). The panels of keys fill c->k [H][round32(n_keys)][round32(D)]. In c->v, the
 * values of each head are split into tiles of KVR_ATTEND_TILE tokens, and each tile is packed into
 * panels. */
void kvr_cross_bf16_pack(struct kvr_cross *c, const float *k, const float *v);
/* Computes the same as cross_attend of struct kvr_ops; kvr_cross_bf16_pack must have packed `c`. */
void kvr_cross_bf16_attend(const struct kvr_rows *r, const struct kvr_cross *c, const float *q,
                           float *out);
/* Number of floats to allocate for c->k and c->v in the BF16 layout. */
int64_t kvr_cross_bf16_k_floats(int n_keys, int n_heads, int head_dim);
int64_t kvr_cross_bf16_v_floats(int n_keys, int n_heads, int head_dim);

#endif
