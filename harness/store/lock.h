/* lock.h - a lock that allows only one run per database.
 *
 * SQLite's own locks would let two runs alternate, and both would measure the same cells. The lock
 * of a run is a kernel lock on a file next to the database. The kernel releases the lock when the
 * process ends. The file is named after the database's resolved path. A database with several hard
 * links is rejected, since each link would have another lock. */
#ifndef KVR_STORE_LOCK_H
#define KVR_STORE_LOCK_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Takes the lock. The caller passes *fd to kvr_store_unlock(). KVR_EBUSY names the process that
 * holds the lock. KVR_EIO: a file with the lock's name exists and is not a lock file; it is not
 * changed. */
enum kvr_status kvr_store_lock(int *fd, const char *db_path);
void kvr_store_unlock(int *fd); /* accepts -1 */

/* Sets *held if a process holds the lock, and writes a text that identifies the process to `who`,
 * such as "process 123 on HOST". The call neither creates nor takes the lock. */
enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256]);

#endif
