/* check_text.h - compares the text encoder with recorded results, as part of `kvreel engine check`.
 *
 * The file umt5_golden.safetensors has token ids `ids` [texts, length] and `mask`, which is 0 for
 * padding. The recorded embeddings are `out` [texts, length, dim], `prompt_embeds` (zero for
 * padding), or both. `bf16_weights.out` has embeddings recorded with BF16 weights. `ids_long`,
 * `mask_long` and `long.out` are the ids, mask and embedding of one long text. The encoder's
 * weights are in the file models_t5* or umt5.safetensors of the same folder. */
#ifndef KVR_TEXT_CHECK_TEXT_H
#define KVR_TEXT_CHECK_TEXT_H

#include "harness/engine/check.h"

/* Appends the text encoder's comparisons to the report. If the folder `dir` has no
 * umt5_golden.safetensors, nothing is appended. If `dir` has that file but no file with the
 * encoder's weights, a note is appended. Rows of padding tokens are not compared. */
enum kvr_status kvr_check_text(struct kvr_check_report *r, const char *dir,
                               const struct kvr_check_how *how);

#endif
