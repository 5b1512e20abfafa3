/* history.h - estimates a cell's time and memory from measured cells. */
#ifndef KVR_STORE_HISTORY_H
#define KVR_STORE_HISTORY_H

#include "harness/store/store.h"

struct kvr_like {
    const char *rollout; /* hash of the rollout; estimates use measured cells with this hash if
                          * there are any */
    const char *model, *name, *kind, *path;
    int frames, window; /* if no measured cell has this rollout, estimates use cells with equal
                         * kind, model, method, frames, window and path, or else with equal kind,
                         * model, method and frames */
};

struct kvr_expected {
    int64_t cell_ns;    /* wall time of the worker in nanoseconds (0: unknown) */
    int64_t host_bytes; /* largest peak host memory of the matched cells' workers */
    int64_t disk_bytes; /* bytes of the cell's artifacts on disk */
};

/* Estimates a cell's time and memory from the OK cells of this database, which may come from other
 * machines. */
enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *like,
                                 struct kvr_expected *out);

/* Writes the SHA-256 of the frames of another cell with the same rollout, code, compiler, flags and
 * processor model, whose frames must be identical. Writes "" if there is no such cell. */
enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65]);

/* Returns up to `most` valid times in seconds of repeats of this rollout that were measured on the
 * session's machine with the same code. */
enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n);

#endif
