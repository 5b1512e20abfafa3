/* path.h - file names. Returned strings are malloc'd; the caller frees them. */
#ifndef KVR_CORE_PATH_H
#define KVR_CORE_PATH_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "dir/name"; just the name if it is absolute or dir is empty. NULL: no memory. */
char *kvr_path_join(const char *dir, const char *name);
/* Directory part: "a/b/c" -> "a/b", "c" -> ".", "/c" -> "/". NULL: no memory. */
char *kvr_path_dir(const char *path);
/* Whether the path is something before this suffix: "a.pt" has ".pt", ".pt" has not. False for "". */
bool kvr_path_has_suffix(const char *path, const char *suffix);
/* Last component, within `path`: "a/b.c" -> "b.c", "a/" -> "". */
const char *kvr_path_base(const char *path);

/* Whether `path`, after resolving links, is a regular file below `dir`. For names from untrusted
 * input. */
bool kvr_path_is_below(const char *dir, const char *path);
bool kvr_path_exists(const char *path); /* any kind of file; false for a dangling link */
bool kvr_path_is_dir(const char *path);

/* `to` relative to the folder `from`, both absolute and free of links: ("/a/b", "/a/c/d") ->
 * "../c/d". NULL: no memory. */
char *kvr_path_relative(const char *from, const char *to);

/* Creates a directory and its parents. KVR_EIO if a file is in the way; an existing directory is no
 * error. */
enum kvr_status kvr_mkdirs(const char *path);
/* Creates the parent directories of an output file. */
enum kvr_status kvr_mkdirs_above(const char *path);

#ifdef __cplusplus
}
#endif
#endif
