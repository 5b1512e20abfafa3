/* spiece.h - a C interface to the C++ library sentencepiece.
 *
 *     struct kvr_spiece *s;
 *     KVR_TRY(kvr_spiece_open(&s, "google/umt5-xxl/spiece.model"));
 *     KVR_TRY(kvr_spiece_encode(s, text, &ids, &n));      ids is malloc'ed
 *     kvr_spiece_close(&s);
 *
 * If kvreel was built without sentencepiece (docs/install.md), kvr_spiece_open returns
 * KVR_EUNSUPPORTED. */
#ifndef KVR_TEXT_SPIECE_H
#define KVR_TEXT_SPIECE_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_spiece;

/* Returns KVR_ENOTFOUND if the file does not exist, and KVR_EFORMAT if the file is not a
 * sentencepiece model. */
enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path);
void kvr_spiece_close(struct kvr_spiece **s); /* accepts NULL */

/* Encodes `text` with the model's normalizer, its pieces and, if the model has one, its byte
 * fallback. No end token is added. */
enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text, int **ids, int *n);
/* Whether piece `id` encodes a single byte for the byte fallback. */
bool kvr_spiece_is_byte(const struct kvr_spiece *s, int id);
int kvr_spiece_count(const struct kvr_spiece *s); /* number of pieces */
/* Returns the id of the piece for unknown text, or -1 if the model has no such piece. */
int kvr_spiece_unknown(const struct kvr_spiece *s);
int kvr_spiece_end(const struct kvr_spiece *s);

#ifdef __cplusplus
}
#endif
#endif
