/* history.h - what a cell will take, by what cells like it have taken. */
#ifndef KVR_STORE_HISTORY_H
#define KVR_STORE_HISTORY_H

#include "harness/store/store.h"

struct kvr_like {
    const char *rollout; /* the very same rollout comes first, */
    const char *model, *name, *kind, *path;
    int frames, window; /* then the same method with these, then with these frames alone */
};

struct kvr_expected {
    int64_t cell_ns;    /* from a worker's start to its end; 0: nothing is known */
    int64_t host_bytes; /* the most that a worker of these held */
    int64_t disk_bytes; /* of its artifacts */
};

/* From OK cells of this database, on any machine. */
enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *like,
                                 struct kvr_expected *out);

/* sha256 of the frames that another cell of the same rollout got from the same code on a processor
 * of the same model: a cell's own must be these. "" when there is none. */
enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65]);

/* Seconds of this rollout's repeats that count, at most `most` of them, as the session's sources
 * took them on the session's machine. */
enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n);

#endif
