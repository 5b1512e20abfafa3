/* history.h - expected cost of a cell from similar cells. */
#ifndef KVR_STORE_HISTORY_H
#define KVR_STORE_HISTORY_H

#include "harness/store/store.h"

struct kvr_like {
    const char *rollout; /* matched in this order: the same rollout; */
    const char *model, *name, *kind, *path;
    int frames, window; /* the same method with these; any method with these frames */
};

struct kvr_expected {
    int64_t cell_ns;    /* wall time of the worker; 0: unknown */
    int64_t host_bytes; /* largest peak of these workers */
    int64_t disk_bytes; /* disk space of the cell's artifacts */
};

/* Estimates from OK cells of this database, measured on any machine. */
enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *like,
                                 struct kvr_expected *out);

/* sha256 of the frames of another cell with the same rollout, code and processor model: this cell's
 * frames must match. "" if there is none. */
enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65]);

/* Up to `most` valid times, in seconds, of this rollout's repeats with the session's sources on the
 * session's machine. */
enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n);

#endif
