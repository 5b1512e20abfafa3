/* talk.h - starts a process that runs a method's Python file, and sends requests to it.
 *
 *     struct kvr_talk t = { 0 };
 *     KVR_TRY(kvr_talk_start(&t, "/home/me/mine.py", "encode", &described));
 *     KVR_TRY(kvr_talk_request(&t, dev, &message, &reply));
 *     kvr_talk_end(&t);
 *
 * The interpreter is python3 or $KVREEL_PYTHON; it runs host.py, which is embedded in the program,
 * until the socket closes. If the process crashes, sends an invalid answer or raises an exception,
 * the request fails with the reason, and the process receives no further request. If the process
 * hangs, the cell's time limit ends it. */
#ifndef KVR_METHODS_SCRIPT_TALK_H
#define KVR_METHODS_SCRIPT_TALK_H

#include <stdint.h>
#include <sys/types.h>

#include "harness/core/status.h"
#include "methods/codec.h"

enum { KVR_TALK_PARTS = 3 };

struct kvr_talk {
    pid_t pid; /* 0: no process */
    int fd;
};

/* A request to the process, which borrows its parts. */
struct kvr_message {
    int64_t form; /* which parts are structures, as stated in the answer to the encode request */
    struct kvr_block_shape shape;
    const void *part[KVR_TALK_PARTS];
    size_t n[KVR_TALK_PARTS];
};

/* The parts of an answer, received into `own`, or into `exactly` if its pointers are not NULL. */
struct kvr_reply {
    int64_t form;                     /* which parts of the coded data are structures */
    size_t most;                      /* maximum number of bytes of all parts together */
    size_t n[KVR_TALK_PARTS];         /* number of received bytes of each part */
    struct kvr_buf own;               /* all parts one after another; owned by the caller */
    void *exactly[KVR_TALK_PARTS];    /* destination of each part */
    size_t n_exactly[KVR_TALK_PARTS]; /* required number of bytes of each part */
};

/* Starts the process. If `described` is not NULL, it receives the file's description as JSON, owned
 * by the caller. The function waits at most 60 s for the description. */
enum kvr_status kvr_talk_start(struct kvr_talk *t, const char *path, const char *role,
                               char **described);
/* An answer whose parts differ in size from reply->n_exactly, or exceed reply->most, is
 * KVR_EFORMAT. */
enum kvr_status kvr_talk_request(struct kvr_talk *t, struct kvr_dev *dev,
                                 const struct kvr_message *m, struct kvr_reply *reply);
void kvr_talk_end(struct kvr_talk *t); /* accepts {0} */

#endif
