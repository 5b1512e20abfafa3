/* lock.h - one run per database.
 *
 * SQLite would let two runs alternate, and both would measure the same cells. The lock is a kernel
 * lock on a file next to the database and ends with the process. It is named after the resolved
 * path; a database with several hard links is refused. */
#ifndef KVR_STORE_LOCK_H
#define KVR_STORE_LOCK_H

#include <stdbool.h>

#include "harness/core/status.h"

/* On success pass *fd to kvr_store_unlock(). KVR_EBUSY gives the holder; KVR_EIO: a file of another
 * kind has that name and is not touched. */
enum kvr_status kvr_store_lock(int *fd, const char *db_path);
void kvr_store_unlock(int *fd); /* accepts -1 */

/* Whether a process holds the lock, and which: "process 123 on HOST". Creates and takes nothing. */
enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256]);

#endif
