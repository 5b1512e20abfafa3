/* history.h - estimates a cell's time and memory from measured cells. */
#ifndef KVR_STORE_HISTORY_H
#define KVR_STORE_HISTORY_H

#include "harness/store/store.h"

/* The cell to estimate. Its members select the measured cells that the estimate uses. */
struct kvr_like {
    const char *rollout; /* rollout hash (plan/cell.h) of the cell to estimate; measured cells with
                          * this hash are used if there are any */
    const char *model, *name, *kind, *path;
    /* If no measured cell has this rollout hash, estimates use cells with equal kind, model, method
     * `name`, frames, window and path. If no measured cell matches these either, estimates use
     * cells with equal kind, model, method and frames. */
    int frames, window;
};

/* Estimates from the measured cells that struct kvr_like selects. */
struct kvr_expected {
    int64_t cell_ns;    /* mean wall time of a selected cell, including decoding and writing its
                         * video, in nanoseconds (0: no cell is selected) */
    int64_t host_bytes; /* largest peak host memory of a worker over the selected cells, in bytes */
    int64_t disk_bytes; /* mean size on disk of a selected cell's artifacts, in bytes */
};

/* Estimates a cell's time and memory from the OK cells of this database, which may come from other
 * machines. */
enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *like,
                                 struct kvr_expected *out);

/* Finds an OK cell other than `key` with the rollout hash `rollout`, measured with the session's
 * code, compiler, compiler flags and CPU model. The frames of the cell `key` must be identical to
 * those of the found cell. Writes the SHA-256 of these frames, or "" if there is no such cell. */
enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65]);

/* Writes the wall times, in seconds, of up to `most` timed OK cells with the rollout hash `rollout`
 * and a valid time. Only cells that were measured on the session's machine with the session's code
 * are used. Sets *n to the number of times. */
enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n);

#endif
