/* spawn.h - a worker process: this program again, in a process group of its own.
 *
 *     KVR_TRY(kvr_child_start(&c, request, strlen(request), threads));
 *     ... poll c.out and c.err, kvr_child_read(&c) when they are ready ...
 *     if (kvr_child_reap(&c, &status))  after SIGCHLD
 *         ... c.answer [c.n_answer], c.tail ...
 *     kvr_child_free(&c);
 *
 * A Ctrl-C at the terminal reaches the parent alone; killing takes the whole group. */
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
    KVR_LIFE_FD =
        3, /* a worker's: a pipe that ends with the parent; KVREEL_LIFE says that it is there */
};

struct kvr_child {
    pid_t pid;
    int out, err; /* -1 when closed */
    int life;     /* held open as long as the child may live */
    char *answer; /* what it wrote to stdout, terminated */
    size_t n_answer, room;
    bool no_room;            /* for all of it */
    char tail[KVR_TAIL_MAX]; /* the end of its stderr, terminated */
    size_t n_tail;
    int64_t cpu_ns; /* of it and its children, once reaped */
};

/* `{/proc/self/exe} worker`, with `request` on its stdin and OMP_NUM_THREADS set; of several GPUs
 * it sees the one of this UUID alone ("": as they are). */
enum kvr_status kvr_child_start(struct kvr_child *c, const char *request, size_t n, int threads,
                                const char *gpu);

/* Take what is there; never blocks. */
void kvr_child_read(struct kvr_child *c);

/* True when it has ended: its wait status, and everything it wrote has been read. What is left
 * of its group is killed. */
bool kvr_child_reap(struct kvr_child *c, int *status);

void kvr_child_kill(struct kvr_child *c);

/* Kills what runs, waits for it, frees. Copes with {0}. */
void kvr_child_free(struct kvr_child *c);

#endif
