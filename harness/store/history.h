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

/* Estimates computed from the selected cells: the measured cells that match struct kvr_like. */
struct kvr_expected {
    int64_t cell_ns;    /* mean wall time of the selected cells in nanoseconds, including decoding
                         * and writing the video (0: no measured cell matches) */
    int64_t host_bytes; /* largest peak host memory, in bytes, of the selected cells' workers */
    int64_t disk_bytes; /* mean, over the selected cells, of the total size in bytes of the files
                         * that a cell wrote */
};

/* Estimates a cell's time and memory from the OK cells of this database, which may come from other
 * machines. */
enum kvr_status kvr_store_expect(struct kvr_store *s, const struct kvr_like *like,
                                 struct kvr_expected *out);

/* Finds an OK cell other than `key` with the rollout hash `rollout`, measured with the session's
 * code, compiler, compiler flags and CPU model. Rollouts are deterministic, so the cell `key` must
 * produce the same frames as the found cell. Writes the SHA-256 of these frames, or "" if no such
 * cell exists. */
enum kvr_status kvr_store_same_frames(struct kvr_store *s, const char *rollout, const char *key,
                                      const struct kvr_session *session, char sha256[65]);

/* Writes the wall times, in seconds, of up to `most` OK cells with the rollout hash `rollout`. Only
 * cells with `timing: true` and a valid time (time_codes is empty) are used, and only if they were
 * measured on the session's machine with the session's code. Sets *n to the number of times. */
enum kvr_status kvr_store_times(struct kvr_store *s, const char *rollout,
                                const struct kvr_session *session, double *seconds, int most,
                                int *n);

#endif
