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

/* A request to the Python process, with up to three byte strings (parts) that the struct borrows.
 * The parts of an encode request are the options, the keys and the values. */
struct kvr_message {
    int64_t form; /* for a decode request: which parts are serialized Python structures, as stated
                   * in the answer to the encode request */
    struct kvr_block_shape shape;
    const void *part[KVR_TALK_PARTS];
    size_t n[KVR_TALK_PARTS];
};

/* An answer of the Python process. The answer's parts (byte strings) are received into `own`, or
 * into `exactly` if the pointers in `exactly` are not NULL. */
struct kvr_reply {
    int64_t form;                     /* which parts of the encoded data are serialized Python
                                       * structures */
    size_t most;                      /* maximum number of bytes of all parts together */
    size_t n[KVR_TALK_PARTS];         /* number of bytes received for each part of the answer */
    struct kvr_buf own;               /* all parts of the answer, concatenated; owned by the
                                       * caller */
    void *exactly[KVR_TALK_PARTS];    /* destination of each part of the answer */
    size_t n_exactly[KVR_TALK_PARTS]; /* required number of bytes of each part of the answer */
};

/* Starts the process. If `described` is not NULL, it receives the file's description as JSON, owned
 * by the caller. The function waits at most 60 s for the description. */
enum kvr_status kvr_talk_start(struct kvr_talk *t, const char *path, const char *role,
                               char **described);
/* Sends a request and receives the answer. Fails with KVR_EFORMAT if the sizes of the answer's
 * parts differ from reply->n_exactly, or if their total exceeds reply->most. */
enum kvr_status kvr_talk_request(struct kvr_talk *t, struct kvr_dev *dev,
                                 const struct kvr_message *m, struct kvr_reply *reply);
void kvr_talk_end(struct kvr_talk *t); /* accepts {0} */

#endif
