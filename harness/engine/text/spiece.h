/* spiece.h - sentencepiece, a C++ library, behind a border of plain C.
 *
 *     struct kvr_spiece *s;
 *     KVR_TRY(kvr_spiece_open(&s, "google/umt5-xxl/spiece.model"));
 *     KVR_TRY(kvr_spiece_encode(s, text, &ids, &n));      ids is malloc'ed
 *     kvr_spiece_close(&s);
 *
 * Built without the library (docs/install.md), open says so: KVR_EUNSUPPORTED. */
#ifndef KVR_TEXT_SPIECE_H
#define KVR_TEXT_SPIECE_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_spiece;

/* KVR_ENOTFOUND, KVR_EFORMAT: no file, or no model of pieces. */
enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path);
void kvr_spiece_close(struct kvr_spiece **s); /* copes with NULL */

/* As the model file says: its normalizer, its pieces, bytes where it has none. No end token. */
enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text, int **ids, int *n);
bool kvr_spiece_is_byte(const struct kvr_spiece *s, int id);
int kvr_spiece_count(const struct kvr_spiece *s); /* pieces */
/* -1: the model has none. */
int kvr_spiece_unknown(const struct kvr_spiece *s);
int kvr_spiece_end(const struct kvr_spiece *s);

#ifdef __cplusplus
}
#endif
#endif
