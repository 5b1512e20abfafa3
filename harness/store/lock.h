/* lock.h - one run per database.
 *
 * SQLite would let two runs alternate, and both would measure the same cells. The lock is a kernel
 * lock on a file next to the database and ends with the process. It is named after the resolved
 * path; a database with several hard links is refused. */
#ifndef KVR_STORE_LOCK_H
#define KVR_STORE_LOCK_H

#include <stdbool.h>

#include "harness/core/status.h"

/* On success *fd is to be passed to kvr_store_unlock(). KVR_EBUSY names the holder; KVR_EIO:
 * another kind of file has that name and is left alone. */
enum kvr_status kvr_store_lock(int *fd, const char *db_path);
void kvr_store_unlock(int *fd); /* accepts -1 */

/* Whether a process holds the lock, and which: "process 123 on HOST". Creates and takes nothing. */
enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256]);

#endif
