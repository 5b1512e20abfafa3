/* lock.h - one run on one database.
 *
 * SQLite would let two runs take turns, and both would measure the same cells. The lock is a
 * file beside the database, and it is the kernel's: it ends with the process, however that ends. It
 * goes by the file behind symbolic links; a database of several names is refused. */
#ifndef KVR_STORE_LOCK_H
#define KVR_STORE_LOCK_H

#include <stdbool.h>

#include "harness/core/status.h"

/* Into *fd, which kvr_store_unlock() takes back. KVR_EBUSY names the process that has it;
 * KVR_EIO: there is something else in its place, and it is left alone. */
enum kvr_status kvr_store_lock(int *fd, const char *db_path);
void kvr_store_unlock(int *fd); /* copes with -1 */

/* Is somebody writing to it? Then who, "process 123 on HOST". Nothing is created or taken. */
enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256]);

#endif
