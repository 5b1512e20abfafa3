/* tune.h - stores the results of GEMM autotuning in a file: the fastest GPU kernel for each GEMM
 * shape.
 *
 *     KVR_TRY(kvr_tune_open(&t, NULL, "NVIDIA H200; driver 13000; cuBLASLt 13.1"));
 *     if (!kvr_tune_find(t, "4680x1536x1536 bf16 bias", &choice)) {
 *         choice = ...;                                        measured
 *         kvr_tune_keep(t, "4680x1536x1536 bf16 bias", choice, us);
 *     }
 *     puts(kvr_tune_words(t));               "FILE: 12 matrix products known, 1 measured"
 *     kvr_tune_close(&t);
 *
 * The autotuning file is a text file in kvreel's cache folder. The first line of the autotuning
 * file names the GPU, driver, library and program version. Every other line, "WHAT = CHOICE
 * MICROSECONDS", has a GEMM shape, the number of the chosen kernel, and that kernel's time in
 * microseconds. If the first line names another GPU, driver, library or program version, or another
 * line is malformed, the file is replaced and all GEMMs are measured again. The text of
 * kvr_tune_words() then includes the reason for the replacement. If the autotuning file cannot be
 * written, the measured choices are used by this process only. Several processes may append to the
 * same autotuning file. */
#ifndef KVR_ENGINE_TUNE_H
#define KVR_ENGINE_TUNE_H

#include <stdbool.h>

#include "harness/core/status.h"

enum {
    KVR_TUNE_WHAT = 96,
    KVR_TUNE_OWN = -1
}; /* A choice is an index into the list of algorithms that cuBLASLt's heuristic returns, or
    * KVR_TUNE_OWN for kvreel's own kernel. */

struct kvr_tune;

/* Opens the autotuning file `path`. If path is NULL, the file is autotune-HASH.txt in kvreel's
 * cache folder, where HASH is a hash of `machine`. The string `machine` names the GPU, driver and
 * library, and must not contain a line feed. */
enum kvr_status kvr_tune_open(struct kvr_tune **out, const char *path, const char *machine);
void kvr_tune_close(struct kvr_tune **t); /* accepts NULL */

/* Looks up the kernel chosen for the GEMM shape named `what`; returns false if that shape has not
 * been measured. `what` must not contain a line feed or "=", and must be shorter than
 * KVR_TUNE_WHAT. */
bool kvr_tune_find(const struct kvr_tune *t, const char *what, int *choice);
/* Stores the kernel chosen for GEMM shape `what`, and its time `us` in microseconds, in memory and
 * in the autotuning file. */
enum kvr_status kvr_tune_keep(struct kvr_tune *t, const char *what, int choice, double us);
/* Returns a text with the path of the autotuning file, the number of GEMM shapes read from the
 * file, and the number measured by this process. The string belongs to `t` and is valid until the
 * next call. */
const char *kvr_tune_words(struct kvr_tune *t);

#endif
