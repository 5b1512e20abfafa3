/* path.h - names of files. Strings that are given are malloc'd; free() them. */
#ifndef KVR_CORE_PATH_H
#define KVR_CORE_PATH_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "dir/name"; an absolute name, or an empty dir, gives the name alone. NULL: no memory. */
char *kvr_path_join(const char *dir, const char *name);
/* What stands before the last part: "a/b/c" -> "a/b", "c" -> ".", "/c" -> "/". NULL: no memory. */
char *kvr_path_dir(const char *path);
/* The last part, inside `path`: "a/b.c" -> "b.c", "a/" -> "". */
const char *kvr_path_base(const char *path);

/* Is this a regular file below `dir`, wherever links on the way lead? For names that others wrote.
 */
bool kvr_path_is_below(const char *dir, const char *path);
bool kvr_path_exists(const char *path); /* of any kind; a dangling link does not */
bool kvr_path_is_dir(const char *path);

/* `to` as seen from the folder `from`, both absolute and without links: ("/a/b", "/a/c/d") ->
 * "../c/d". NULL: no memory. */
char *kvr_path_relative(const char *from, const char *to);

/* Make a directory and all above it. One that exists is fine, a file in the way is KVR_EIO. */
enum kvr_status kvr_mkdirs(const char *path);
/* Those above a file that is to be written. */
enum kvr_status kvr_mkdirs_above(const char *path);

#ifdef __cplusplus
}
#endif
#endif
