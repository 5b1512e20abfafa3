/* tune.h - autotuning: the fastest kernel of each product on this GPU, measured at first use and
 * stored in a file.
 *
 *     KVR_TRY(kvr_tune_open(&t, NULL, "NVIDIA H200; driver 13000; cuBLASLt 13.1"));
 *     if (!kvr_tune_find(t, "4680x1536x1536 bf16 bias", &choice)) {
 *         choice = ...;                                        measured
 *         kvr_tune_keep(t, "4680x1536x1536 bf16 bias", choice, us);
 *     }
 *     puts(kvr_tune_words(t));                                 "FILE: 12 known, 1 measured"
 *     kvr_tune_close(&t);
 *
 * A text file in the cache folder: a header with GPU, driver, library and program, then a line
 * "WHAT = CHOICE MICROSECONDS" per product. A file with another header or a malformed line is
 * replaced, and everything is measured again; kvr_tune_words() gives the reason. A file that cannot
 * be written is no error. Several processes may append to one file. */
#ifndef KVR_ENGINE_TUNE_H
#define KVR_ENGINE_TUNE_H

#include <stdbool.h>

#include "harness/core/status.h"

enum {
    KVR_TUNE_WHAT = 96,
    KVR_TUNE_OWN = -1
}; /* choice KVR_TUNE_OWN: kvreel's kernel; otherwise the number of the library's proposal */

struct kvr_tune;

/* `path` NULL: autotune-HASH.txt of kvr_cache_file(), with HASH of `machine`, which has no line
 * feed. */
enum kvr_status kvr_tune_open(struct kvr_tune **out, const char *path, const char *machine);
void kvr_tune_close(struct kvr_tune **t); /* accepts NULL */

/* `what` has no line feed or "=", and fewer than KVR_TUNE_WHAT characters. */
bool kvr_tune_find(const struct kvr_tune *t, const char *what, int *choice);
/* KVR_ENOMEM: the choice is not stored. */
enum kvr_status kvr_tune_keep(struct kvr_tune *t, const char *what, int choice, double us);
/* Where choices are stored and how many were known and measured. Owned by `t`, valid until the next
 * call. */
const char *kvr_tune_words(struct kvr_tune *t);

#endif
