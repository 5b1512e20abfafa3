/* spawn.h - a worker process: this program again, in its own process group.
 *
 *     KVR_TRY(kvr_child_start(&c, request, strlen(request), threads));
 *     ... poll c.out and c.err, kvr_child_read(&c) when they are ready ...
 *     if (kvr_child_reap(&c, &status))  after SIGCHLD
 *         ... c.answer [c.n_answer], c.tail ...
 *     kvr_child_free(&c);
 *
 * Ctrl-C at the terminal reaches only the parent; killing a child kills its group. */
#ifndef KVR_RUN_SPAWN_H
#define KVR_RUN_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "harness/core/status.h"

enum {
    KVR_TAIL_MAX = 4096,
    KVR_ANSWER_MAX = 64 << 20,
    KVR_LIFE_FD = 3, /* in a worker: pipe that closes when the parent ends; set by KVREEL_LIFE */
};

struct kvr_child {
    pid_t pid;
    int out, err; /* -1 if closed */
    int life;     /* open as long as the child may live */
    char *answer; /* its stdout, terminated */
    size_t n_answer, capacity;
    bool no_room;            /* memory did not suffice for the whole answer */
    char tail[KVR_TAIL_MAX]; /* end of its stderr, terminated */
    size_t n_tail;
    int64_t cpu_ns; /* CPU time of the child and its descendants, set when the child is reaped */
};

/* Starts `{/proc/self/exe} worker` with `request` on its stdin and OMP_NUM_THREADS set. Only the
 * GPU of UUID `gpu` is visible to it; "": all GPUs are. */
enum kvr_status kvr_child_start(struct kvr_child *c, const char *request, size_t n, int threads,
                                const char *gpu);

/* Reads available output; never blocks. */
void kvr_child_read(struct kvr_child *c);

/* True once the child has ended: *status is its wait status, and all output has been read. Kills
 * the rest of its group. */
bool kvr_child_reap(struct kvr_child *c, int *status);

void kvr_child_kill(struct kvr_child *c);

/* Kills the child, waits for it and frees all memory. Accepts {0}. */
void kvr_child_free(struct kvr_child *c);

#endif
