/* mapped.h - maps a file read-only into memory.
 *
 *     struct kvr_mapped m;
 *     KVR_TRY(kvr_mapped_open(&m, "model.pt"));
 *     ... m.bytes[0 .. m.n) ...
 *     kvr_mapped_close(&m);
 *
 * Pages of the file become resident when they are first read. Opening returns KVR_ENOTFOUND for a
 * missing file, and KVR_EIO for a path that is not a regular file, such as a FIFO. */
#ifndef KVR_CORE_MAPPED_H
#define KVR_CORE_MAPPED_H

#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_mapped {
    const unsigned char *bytes; /* contents of the file, or NULL if the file is empty */
    size_t n;
};

enum kvr_status kvr_mapped_open(struct kvr_mapped *m, const char *path);
void kvr_mapped_close(struct kvr_mapped *m); /* unmaps the file and sets *m to {0}; no effect on
                                              * {0} */

#ifdef __cplusplus
}
#endif
#endif
