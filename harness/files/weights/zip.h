/* zip.h - the central directory of a zip archive of stored records, as written by torch.save.
 *
 *     struct kvr_zipfile z;
 *     KVR_TRY(kvr_zipfile_read(&z, "model.pt", bytes, n));
 *     const struct kvr_zipfile_record *r = kvr_zipfile_find(&z, "archive/data.pkl", 16);
 *     kvr_zipfile_free(&z);
 *
 * Sizes and offsets come from the central directory, including ZIP64: torch leaves them zero in the
 * local headers, so only the name and its length are read from a local header.
 *
 * Refused:
 * - an end record that is not the file's last 22 bytes, which excludes comments;
 * - a directory whose position or length differs from the end record;
 * - compressed or encrypted records, several disks;
 * - records that exceed the file, overlap or have duplicate names. */
#ifndef KVR_WEIGHTS_ZIP_H
#define KVR_WEIGHTS_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_zipfile_record {
    const unsigned char *name; /* not terminated; points into the archive */
    size_t n_name;
    const unsigned char *data;
    size_t n;
    uint64_t begin; /* offset of the local header in the archive */
};

struct kvr_zipfile {
    struct kvr_zipfile_record *records; /* sorted by name */
    size_t n;
};

/* `bytes` is borrowed until kvr_zipfile_free. `where` names the file in messages. On failure `z` is
 * empty. */
enum kvr_status kvr_zipfile_read(struct kvr_zipfile *z, const char *where,
                                 const unsigned char *bytes, size_t n);
void kvr_zipfile_free(struct kvr_zipfile *z);
/* NULL: no such record. */
const struct kvr_zipfile_record *kvr_zipfile_find(const struct kvr_zipfile *z, const void *name,
                                                  size_t n);

#ifdef __cplusplus
}
#endif
#endif
