/* spawn.h - starts this program as a worker process in its own process group.
 *
 *     KVR_TRY(kvr_child_start(&c, request, strlen(request), threads, gpu));
 *     ... poll c.out and c.err, kvr_child_read(&c) when they are ready ...
 *     if (kvr_child_reap(&c, &status))  after SIGCHLD
 *         ... c.answer [c.n_answer], c.tail ...
 *     kvr_child_free(&c);
 *
 * Ctrl-C at the terminal therefore signals only the parent. The function kvr_child_kill kills all
 * processes of the child's group. */
#ifndef KVR_RUN_SPAWN_H
#define KVR_RUN_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "harness/core/status.h"

enum {
    KVR_TAIL_MAX = 4096,
    KVR_ANSWER_MAX = 64 << 20, /* limit of an answer in bytes, including the final NUL */
    KVR_LIFE_FD = 3, /* the worker's file descriptor for the read end of a pipe; end of file on this
                      * pipe tells the worker that the parent has ended; the worker's environment
                      * variable KVREEL_LIFE has the descriptor's number */
};

struct kvr_child {
    pid_t pid;
    int out, err; /* descriptors above KVR_LIFE_FD; -1 if closed, 0 in {0} */
    int life;     /* write end of the pipe at the child's KVR_LIFE_FD; when it is closed, the child
                   * exits */
    char *answer; /* output of the child on stdout, NUL-terminated */
    size_t n_answer, capacity;
    bool no_room;            /* whether `answer` is truncated, because memory was exhausted */
    bool too_long;           /* whether `answer` is truncated, because it exceeds KVR_ANSWER_MAX */
    char tail[KVR_TAIL_MAX]; /* end of the child's output on stderr, NUL-terminated */
    size_t n_tail;
    int64_t cpu_ns; /* CPU time of the child and its descendants in nanoseconds, set by
                     * kvr_child_reap */
};

/* Starts `/proc/self/exe worker` with `request` on stdin and OMP_NUM_THREADS set to `threads`. Only
 * the GPU with UUID `gpu` is visible to the child, or all GPUs if `gpu` is "". */
enum kvr_status kvr_child_start(struct kvr_child *c, const char *request, size_t n, int threads,
                                const char *gpu);

/* Reads the child's available output without blocking. */
void kvr_child_read(struct kvr_child *c);

/* Returns true once the child has ended, after reading all its output and killing the rest of its
 * process group. *status receives the child's wait status, as from waitpid(). */
bool kvr_child_reap(struct kvr_child *c, int *status);

void kvr_child_kill(struct kvr_child *c);

/* Kills the child, waits until the child has ended, and frees all memory. Accepts {0}. */
void kvr_child_free(struct kvr_child *c);

#endif
