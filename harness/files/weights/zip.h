/* zip.h - reads the central directory of a zip archive with uncompressed records, as torch.save
 * writes it.
 *
 *     struct kvr_zipfile z;
 *     KVR_TRY(kvr_zipfile_read(&z, "model.pt", bytes, n));
 *     const struct kvr_zipfile_record *r = kvr_zipfile_find(&z, "archive/data.pkl", 16);
 *     kvr_zipfile_free(&z);
 *
 * Sizes and offsets of records are read from the central directory, including ZIP64 fields. Only a
 * record's name is read from its local header, because torch.save writes zeros for size and offset
 * there.
 *
 * An archive is refused if its end record is not the file's last 22 bytes; an archive with a
 * comment is therefore refused. An archive is also refused if its end record states a wrong
 * position or length of the central directory. Compressed or encrypted records and archives of
 * several disks are refused. An archive is also refused if a record extends past the end of the
 * file, or if records overlap or have duplicate names. */
#ifndef KVR_WEIGHTS_ZIP_H
#define KVR_WEIGHTS_ZIP_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_zipfile_record {
    const unsigned char *name; /* name of the record, in the archive's bytes; not NUL-terminated */
    size_t n_name;
    const unsigned char *data;
    size_t n;
    uint64_t begin; /* offset of the record's local header in the archive */
};

struct kvr_zipfile {
    struct kvr_zipfile_record *records; /* sorted by name */
    size_t n;
};

/* Reads the central directory of the archive whose n bytes are at `bytes`. They must stay valid
 * until kvr_zipfile_free. `where` names the file in error messages. After an error `z` has no
 * records. */
enum kvr_status kvr_zipfile_read(struct kvr_zipfile *z, const char *where,
                                 const unsigned char *bytes, size_t n);
void kvr_zipfile_free(struct kvr_zipfile *z);
/* Finds a record by its name, the n bytes at `name`; returns NULL if the archive has no such
 * record. */
const struct kvr_zipfile_record *kvr_zipfile_find(const struct kvr_zipfile *z, const void *name,
                                                  size_t n);

#ifdef __cplusplus
}
#endif
#endif
