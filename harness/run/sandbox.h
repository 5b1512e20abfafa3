/* sandbox.h - runs an external metric program without network access; the program can write to one
 * folder only.
 *
 *     struct kvr_sandbox s;
 *     KVR_TRY(kvr_sandbox_open(&s, KVR_SANDBOX_BEST, argv, files, timeout_s));
 *     pid = fork();
 *     if (pid == 0) {
 *         kvr_sandbox_enter(&s);
 *         execvpe(s.argv[0], s.argv, s.env);
 *     }
 *     ...                          after it has exited
 *     kvr_sandbox_close(&s);
 *
 * The writable folder is temporary: kvr_sandbox_open() creates it, the environment variable TMPDIR
 * tells the program its path, and kvr_sandbox_close() removes it. The tool bwrap implements the
 * sandbox with kernel namespaces. If bwrap or namespaces are unavailable, Landlock restricts file
 * access and a seccomp filter restricts sockets. In all cases the program inherits no file
 * descriptors except stdin, stdout and stderr. Resource limits forbid core files, and limit file
 * size and data memory to the size of the machine's memory. CPU time is limited to the timeout
 * multiplied by the number of cores. */
#ifndef KVR_RUN_SANDBOX_H
#define KVR_RUN_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

enum kvr_sandbox_kind {
    KVR_SANDBOX_BEST,     /* the first of the kinds listed below that works on this machine: bwrap,
                           * Landlock, or no sandbox */
    KVR_SANDBOX_BWRAP,    /* requires bwrap, and fails with KVR_EUNSUPPORTED if bwrap does not
                           * work */
    KVR_SANDBOX_LANDLOCK, /* requires Landlock, and fails with KVR_EUNSUPPORTED if Landlock does not
                           * work */
    KVR_SANDBOX_NONE      /* no sandbox, because the user asked for none */
};

enum { KVR_SANDBOX_FILES = 3, KVR_SANDBOX_FAILED = 126 };

struct kvr_sandbox {
    enum kvr_sandbox_kind kind; /* kind of sandbox in use, never KVR_SANDBOX_BEST */
    const char *lacks;          /* why no sandbox works on this machine, if KVR_SANDBOX_BEST was
                                 * requested and `kind` is KVR_SANDBOX_NONE; otherwise NULL */
    char scratch[512];          /* the program's writable folder */
    char **argv, **env;         /* for exec */
    char *words;                /* storage of the strings that `env` points to */
    int64_t memory_bytes;
    int cpu_s;
};

/* Prepares a sandbox for the program argv[0] with arguments argv; like execvp(), the function looks
 * for the program in PATH. The program can read the files `files` in any folder; entries may be
 * NULL. `argv` and `files` must stay valid until kvr_sandbox_close. Returns KVR_ENOTFOUND if the
 * program does not exist. After an error there is nothing to close. */
enum kvr_status kvr_sandbox_open(struct kvr_sandbox *s, enum kvr_sandbox_kind wanted,
                                 char *const *argv, const char *const files[KVR_SANDBOX_FILES],
                                 int timeout_s);

/* Enters the sandbox. The child process calls this function between fork() and exec; it is
 * async-signal-safe. If the sandbox cannot be entered, the child exits with code
 * KVR_SANDBOX_FAILED. */
void kvr_sandbox_enter(const struct kvr_sandbox *s);

/* Removes the writable folder, ignoring files that cannot be removed, and frees the memory of
 * `s`. */
void kvr_sandbox_close(struct kvr_sandbox *s);

/* --- Linux kernel interfaces (sandbox_kernel.c) ------------------------------------------- */

/* Returns whether the kernel has Landlock and the seccomp filter supports this processor. */
bool kvr_sandbox_has_landlock(void);

/* Restricts this process and its descendants: they can write only below `scratch`, open only Unix
 * sockets, and gain no privileges. Returns false on failure, with the reason in errno. */
bool kvr_sandbox_landlock(const char *scratch);

#endif
