/* sandbox.h - what a program that scores a video may do: read files, compute, and answer.
 *
 *     struct kvr_sandbox s;
 *     KVR_TRY(kvr_sandbox_open(&s, KVR_SANDBOX_BEST, argv, files, timeout_s));
 *     pid = fork();
 *     if (pid == 0) {
 *         kvr_sandbox_enter(&s);
 *         execvpe(s.argv[0], s.argv, s.env);
 *     }
 *     ...                          when it has ended
 *     kvr_sandbox_close(&s);
 *
 * Held, the program has no network, and of files it may change those of one folder alone, which is
 * fresh, named by TMPDIR, and gone afterwards. bwrap does it with namespaces of the kernel; where
 * there is none, or no namespaces, Landlock keeps the files and a seccomp filter the sockets.
 * Limits of the process (no core file, files and memory no larger than the machine's memory,
 * processor time no longer than all cores for the time limit) and no descriptors of ours it has in
 * any case. */
#ifndef KVR_RUN_SANDBOX_H
#define KVR_RUN_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

enum kvr_sandbox_kind {
    KVR_SANDBOX_BEST,     /* the first of these that this machine has */
    KVR_SANDBOX_BWRAP,    /* KVR_EUNSUPPORTED where it does not work */
    KVR_SANDBOX_LANDLOCK, /* the same */
    KVR_SANDBOX_NONE      /* on the user's word */
};

enum { KVR_SANDBOX_FILES = 3, KVR_SANDBOX_FAILED = 126 };

struct kvr_sandbox {
    enum kvr_sandbox_kind kind; /* what it is: never BEST */
    const char *lacks;          /* why BEST was NONE; else NULL */
    char scratch[512];          /* the folder that the program may write to */
    char **argv, **env;         /* of the program that is to be started */
    char *words;                /* that env points into */
    int64_t memory_bytes;
    int cpu_s;
};

/* `argv`: the program, found as execvp() would; borrowed until close, as are the files that it is
 * given, some of which may be NULL: it can read them wherever they are. KVR_ENOTFOUND: there is no
 * such program. On failure there is nothing to close. */
enum kvr_status kvr_sandbox_open(struct kvr_sandbox *s, enum kvr_sandbox_kind wanted,
                                 char *const *argv, const char *const files[KVR_SANDBOX_FILES],
                                 int timeout_s);

/* In the child, between fork() and exec: calls nothing that a lock of another thread could hold up.
 * What cannot be held ends the child with the code KVR_SANDBOX_FAILED. */
void kvr_sandbox_enter(const struct kvr_sandbox *s);

/* Removes the folder, as far as the program let it be removed. */
void kvr_sandbox_close(struct kvr_sandbox *s);

/* --- of the kernel (sandbox_kernel.c) ----------------------------------------------------- */

/* Has this kernel Landlock, and is the seccomp filter written for this processor? */
bool kvr_sandbox_has_landlock(void);

/* From here on this process and what it starts change files below `scratch` alone, open no sockets
 * but Unix ones, and get no rights back by exec. False: errno says why. */
bool kvr_sandbox_landlock(const char *scratch);

#endif
