/* submission.h - exports one sweep as a file: database, configs, machine and checksums.
 *
 *     KVR_TRY(kvr_submission_write("a.db", NULL, "a.kvresult", &r));
 *     ...
 *     KVR_TRY(kvr_submission_open(&s, "a.kvresult"));      s.db: the database, in a folder of its own
 *     kvr_submission_close(&s);
 *
 * The file is a tar archive (POSIX ustar) of manifest.json, results.db, environment.json and
 * configs/SHA12.yaml, in this order. environment.json has the machine, compiler and libraries of
 * each measurement session. SHA12 is the first 12 hexadecimal digits of the config's SHA-256. The
 * manifest gives the size and SHA-256 of every other file in the archive, the SHA-256 of the
 * database's checksums (store/checksum.h), and the numbers of cells, sessions and sweeps. The
 * checksums detect damage and accidental edits; they are not a signature. */
#ifndef KVR_PAGE_SUBMISSION_H
#define KVR_PAGE_SUBMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/sha256.h"
#include "harness/core/status.h"

struct kvr_submission_result {
    char sweep[128]; /* name of the sweep */
    int64_t cells, sessions, bytes;
    char sha256[KVR_SHA256_HEX]; /* SHA-256 of the exported database */
};

/* Exports one sweep of `db` to the file `path`. `sweep` is the sweep's name or the first digits of
 * its id, or NULL if the database has only one sweep. KVR_EINVAL: no sweep matches, or several do
 * (the message lists the names). KVR_EFORMAT: `db` is damaged (for example, a row does not match
 * its stored checksum). */
enum kvr_status kvr_submission_write(const char *db, const char *sweep, const char *path,
                                     struct kvr_submission_result *out);

struct kvr_submission {
    char *dir, *db; /* paths of a temporary folder and of the extracted database in it; both are
                     * NULL if no file is open */
};

/* Returns whether the file is an exported sweep. */
bool kvr_submission_is(const char *path);
/* Extracts an exported sweep to a temporary folder. KVR_EFORMAT: the size or SHA-256 of a file in
 * the archive differs from the manifest. */
enum kvr_status kvr_submission_open(struct kvr_submission *out, const char *path);
void kvr_submission_close(struct kvr_submission *s); /* accepts {0} */

#endif
