/* talk.h - starts a process that runs a method's Python file, and sends requests to it.
 *
 *     struct kvr_talk t = { 0 };
 *     KVR_TRY(kvr_talk_start(&t, "/home/me/mine.py", "encode", &described));
 *     KVR_TRY(kvr_talk_request(&t, dev, &message, &reply));
 *     kvr_talk_end(&t);
 *
 * The process runs the script host.py, which is embedded in the program, until its socket is
 * closed. The interpreter is $KVREEL_PYTHON if set, else python3. If the process crashes, sends an
 * invalid reply or raises an exception, the request fails and its error message gives the reason.
 * Later requests fail without being sent. If the process hangs, the time limit of the run ends
 * it. */
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
    int64_t until_ns; /* kvr_now_ns() at which the wait for the first message ends; 0: no limit */
};

/* A request to the Python process with up to three parts, which are byte strings in memory of the
 * caller. The parts of an encode request are the options, the keys and the values. */
struct kvr_message {
    int64_t form; /* for a decode request: kvr_reply.form of the reply that contained the encoded
                   * data */
    struct kvr_block_shape shape;
    const void *part[KVR_TALK_PARTS];
    size_t n[KVR_TALK_PARTS];
};

/* A reply of the Python process, which has up to three parts (byte strings). Part i is stored at
 * exactly[i], or in the buffer `own` if exactly[i] is NULL. */
struct kvr_reply {
    int64_t form;                     /* bit 0: encode() returned a Python structure (tuple, list or
                                       * dict) as `data`, which is serialized; bit 1: the same for
                                       * `state` */
    size_t most;                      /* maximum number of bytes in `own`; the request fails if the
                                       * reply needs more */
    size_t n[KVR_TALK_PARTS];         /* number of bytes received for each part */
    struct kvr_buf own;               /* the parts i with exactly[i] NULL, concatenated; the caller
                                       * frees this buffer */
    void *exactly[KVR_TALK_PARTS];    /* memory that receives part i of the reply, or NULL to store
                                       * part i in `own` */
    size_t n_exactly[KVR_TALK_PARTS]; /* required size of part i in bytes, if exactly[i] is not
                                       * NULL */
};

/* Starts the process that runs the Python file `path`. If `described` is not NULL, the function
 * sets *described to a JSON string with the method's name, options, paper and version, which the
 * caller frees. The function waits at most 60 s for the process to load the file. */
enum kvr_status kvr_talk_start(struct kvr_talk *t, const char *path, const char *role,
                               char **described);
/* Sends a request and receives the reply. Fails with KVR_EFORMAT if a part stored at
 * reply->exactly does not have reply->n_exactly bytes, or if the other parts exceed reply->most. */
enum kvr_status kvr_talk_request(struct kvr_talk *t, struct kvr_dev *dev,
                                 const struct kvr_message *m, struct kvr_reply *reply);
void kvr_talk_end(struct kvr_talk *t); /* accepts {0} */

#endif
