/* spiece.h - C interface of sentencepiece, a C++ library.
 *
 *     struct kvr_spiece *s;
 *     KVR_TRY(kvr_spiece_open(&s, "google/umt5-xxl/spiece.model"));
 *     KVR_TRY(kvr_spiece_encode(s, text, &ids, &n));      ids is malloc'ed
 *     kvr_spiece_close(&s);
 *
 * Without the library at build time (docs/install.md) open fails with KVR_EUNSUPPORTED. */
#ifndef KVR_TEXT_SPIECE_H
#define KVR_TEXT_SPIECE_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_spiece;

/* KVR_ENOTFOUND: no file; KVR_EFORMAT: not a sentencepiece model. */
enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path);
void kvr_spiece_close(struct kvr_spiece **s); /* accepts NULL */

/* Encodes with the model's normalizer, pieces and byte fallback, if it has one. Adds no end
 * token. */
enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text, int **ids, int *n);
bool kvr_spiece_is_byte(const struct kvr_spiece *s, int id);
int kvr_spiece_count(const struct kvr_spiece *s); /* number of pieces */
/* Id of the piece for unknown text; -1: the model has none. */
int kvr_spiece_unknown(const struct kvr_spiece *s);
int kvr_spiece_end(const struct kvr_spiece *s);

#ifdef __cplusplus
}
#endif
#endif
