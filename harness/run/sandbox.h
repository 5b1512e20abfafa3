/* sandbox.h - confines an external metric program to reading files, computing and printing.
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
 * A sandboxed program has no network and can write only to one new folder, given by TMPDIR and
 * removed afterwards. bwrap does this with kernel namespaces; without bwrap or namespaces, Landlock
 * restricts files and a seccomp filter sockets. In all cases process limits apply (no core file,
 * file size and memory up to the machine's memory, processor time up to all cores for the timeout),
 * and no descriptors are inherited. */
#ifndef KVR_RUN_SANDBOX_H
#define KVR_RUN_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

enum kvr_sandbox_kind {
    KVR_SANDBOX_BEST,     /* the first of these that works on this machine */
    KVR_SANDBOX_BWRAP,    /* use bwrap; KVR_EUNSUPPORTED if it does not work */
    KVR_SANDBOX_LANDLOCK, /* use Landlock; KVR_EUNSUPPORTED if it does not work */
    KVR_SANDBOX_NONE      /* no sandbox, as requested by the user */
};

enum { KVR_SANDBOX_FILES = 3, KVR_SANDBOX_FAILED = 126 };

struct kvr_sandbox {
    enum kvr_sandbox_kind kind; /* the kind in use: never BEST */
    const char *lacks;          /* why BEST became NONE; else NULL */
    char scratch[512];          /* the program's writable folder */
    char **argv, **env;         /* for exec */
    char *words;                /* storage of env's strings */
    int64_t memory_bytes;
    int cpu_s;
};

/* `argv`: the program, found as by execvp(), and its arguments. `files` (entries may be NULL) are
 * readable anywhere. Both are borrowed until close. KVR_ENOTFOUND: no such program. On failure
 * there is nothing to close. */
enum kvr_status kvr_sandbox_open(struct kvr_sandbox *s, enum kvr_sandbox_kind wanted,
                                 char *const *argv, const char *const files[KVR_SANDBOX_FILES],
                                 int timeout_s);

/* In the child, between fork() and exec: async-signal-safe. If the sandbox cannot be entered, the
 * child exits with KVR_SANDBOX_FAILED. */
void kvr_sandbox_enter(const struct kvr_sandbox *s);

/* Removes the folder as far as possible. */
void kvr_sandbox_close(struct kvr_sandbox *s);

/* --- kernel interfaces (sandbox_kernel.c) ------------------------------------------------- */

/* Whether the kernel has Landlock and the seccomp filter supports this processor. */
bool kvr_sandbox_has_landlock(void);

/* Restricts this process and its descendants: writes only below `scratch`, only Unix sockets, no
 * new privileges. False: it failed, and errno has the reason. */
bool kvr_sandbox_landlock(const char *scratch);

#endif
