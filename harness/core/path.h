/* path.h - file names. Returned strings are allocated by malloc and freed by the caller. */
#ifndef KVR_CORE_PATH_H
#define KVR_CORE_PATH_H

#include <stdbool.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joins a folder and a file name to "dir/name". Returns a copy of `name` alone if `name` is
 * absolute or `dir` is empty, and NULL if memory is short. */
char *kvr_path_join(const char *dir, const char *name);
/* Directory part of a path, such as "a/b" for "a/b/c", "." for "c" and "/" for "/c". Returns NULL
 * if memory is short. */
char *kvr_path_dir(const char *path);
/* Whether the path ends in this suffix after at least one other character. The path "a.pt" has the
 * suffix ".pt", while the path ".pt" does not. For an empty suffix the result is false. */
bool kvr_path_has_suffix(const char *path, const char *suffix);
/* Last component of a path, such as "b.c" for "a/b.c" and "" for "a/". The result points into
 * `path`. */
const char *kvr_path_base(const char *path);

/* Whether `path`, after resolving links, is a regular file below `dir`. Use it for file names from
 * untrusted input. */
bool kvr_path_is_below(const char *dir, const char *path);
bool kvr_path_exists(const char *path); /* whether a file of any kind exists; false for a dangling
                                         * link */
bool kvr_path_is_dir(const char *path);

/* The path `to` relative to the folder `from`, such as "../c/d" for ("/a/b", "/a/c/d"). The paths
 * `to` and `from` must be absolute and without symbolic links. Returns NULL if memory is short. */
char *kvr_path_relative(const char *from, const char *to);

/* Creates a directory and its parents. Fails with KVR_EIO if a component is a file; an existing
 * directory is no error. */
enum kvr_status kvr_mkdirs(const char *path);
/* Creates the parent directories of an output file. */
enum kvr_status kvr_mkdirs_above(const char *path);

#ifdef __cplusplus
}
#endif
#endif
