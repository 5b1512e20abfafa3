/* submission.h - exports one sweep as a file: database, configs, machine and checksums.
 *
 *     KVR_TRY(kvr_submission_write("a.db", NULL, "a.kvresult", &r));
 *     ...
 *     KVR_TRY(kvr_submission_open(&s, "a.kvresult"));      s.db: the database, in a folder of its own
 *     kvr_submission_close(&s);
 *
 * A tar archive (POSIX ustar) with, in this order, manifest.json, results.db, environment.json
 * (sessions: machine, compiler, libraries) and configs/SHA12.yaml. The manifest has size and
 * SHA-256 of every other member and of the database's checksums (store/checksum.h), and the numbers
 * of covered cells, sessions and sweeps. Checksums detect damage and careless edits; they are not a
 * signature. */
#ifndef KVR_REPORT_SUBMISSION_H
#define KVR_REPORT_SUBMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/sha256.h"
#include "harness/core/status.h"

struct kvr_submission_result {
    char sweep[128]; /* name of the sweep */
    int64_t cells, sessions, bytes;
    char sha256[KVR_SHA256_HEX]; /* hash of the exported database */
};

/* `sweep`: a sweep's name, or the first digits of its id; NULL: the only sweep. KVR_EINVAL, with
 * the names: several sweeps match, or none; KVR_EFORMAT: a checksum in the database does not
 * match. */
enum kvr_status kvr_submission_write(const char *db, const char *sweep, const char *path,
                                     struct kvr_submission_result *out);

struct kvr_submission {
    char *dir, *db; /* temporary folder and the database in it; NULL: not open */
};

bool kvr_submission_is(const char *path);
/* KVR_EFORMAT: a member that does not match the manifest. */
enum kvr_status kvr_submission_open(struct kvr_submission *out, const char *path);
void kvr_submission_close(struct kvr_submission *s); /* accepts {0} */

#endif
