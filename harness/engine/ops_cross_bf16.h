/* ops_cross_bf16.h - cross-attention of the CPU with BF16 products on AMX tiles.
 *
 *     if (kvr_cross_tiles(c)) { kvr_cross_bf16_pack(c, k, v); kvr_cross_bf16_attend(r, c, q, out); }
 *
 * Kernels and error bound are those of self-attention (harness/cache/attend_bf16.h): q / sqrt(D),
 * keys, values and softmax weights are rounded to BF16, sums are F32. Both functions run in every
 * CPU variant, without AMX in plain C. */
#ifndef KVR_ENGINE_OPS_CROSS_BF16_H
#define KVR_ENGINE_OPS_CROSS_BF16_H

#include "harness/engine/ops.h"

/* Narrower heads stay in F32; rows of wider ones would not fit on the stack. */
enum { KVR_CROSS_BF16_NARROWEST = 16, KVR_CROSS_BF16_WIDEST = 256 };

/* Whether layers compute in BF16, the variant has AMX, and the head width is in range. */
bool kvr_cross_tiles(const struct kvr_cross *c);

/* Packs k, v [n_keys, H*D] into c as BF16. c->k: panels of keys, [H][round32(n_keys)][round32(D)].
 * c->v: for each head, tiles of KVR_ATTEND_TILE tokens, each in panels of values. */
void kvr_cross_bf16_pack(struct kvr_cross *c, const float *k, const float *v);
/* Like kvr_ops.cross_attend, over prompts that kvr_cross_bf16_pack packed. */
void kvr_cross_bf16_attend(const struct kvr_rows *r, const struct kvr_cross *c, const float *q,
                           float *out);
/* Size of c->k and c->v in this layout, in floats. */
int64_t kvr_cross_bf16_k_floats(int n_keys, int n_heads, int head_dim);
int64_t kvr_cross_bf16_v_floats(int n_keys, int n_heads, int head_dim);

#endif
