/* lock.h - a lock that allows only one run per database.
 *
 * SQLite's own locks last for one transaction, so they would let two runs measure the same cells.
 * The lock of a run is an flock() on a file next to the database. The kernel releases the lock when
 * the process ends. The lock file's path is the path of the database, with symbolic links resolved,
 * followed by ".lock". A database with several hard links is rejected, since each link would have
 * its own lock file. */
#ifndef KVR_STORE_LOCK_H
#define KVR_STORE_LOCK_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Acquires the lock. The caller releases the lock by passing `fd` to kvr_store_unlock(). The
 * message of KVR_EBUSY names the process that holds the lock. KVR_EIO: a file with the lock file's
 * name exists but is not a lock file, and is left unchanged; or the file system refuses the lock
 * (for example ENOLCK on NFS). On failure *fd is -1. */
enum kvr_status kvr_store_lock(int *fd, const char *db_path);
void kvr_store_unlock(int *fd); /* accepts -1 */

/* Sets *held to whether a process holds the lock. If so, `who` receives the process and its host,
 * such as "process 123 on HOST". The function neither creates the lock file nor acquires
 * the lock. */
enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256]);

#endif
