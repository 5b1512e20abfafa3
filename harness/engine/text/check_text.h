/* check_text.h - the text encoder against a recorded one, as a part of `kvreel engine check`.
 *
 * umt5_golden.safetensors has `ids` [texts, length] with `mask` of the same shape, and of them any of
 * `out` [texts, length, dim] and `prompt_embeds`, whose rows behind a text are 0; and `ids_long`,
 * `mask_long`, `long.out`. The encoder is the folder's: models_t5*, or umt5.safetensors. */
#ifndef KVR_TEXT_CHECK_TEXT_H
#define KVR_TEXT_CHECK_TEXT_H

#include "harness/engine/check.h"

/* Adds to the report; nothing where nothing is recorded, a note where there is no encoder. Rows of
 * padding are not compared. */
enum kvr_status kvr_check_text(struct kvr_check_report *r, const char *dir,
                               const struct kvr_check_how *how);

#endif
