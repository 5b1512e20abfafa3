/* vbench.h - imports VBench scores as metrics of the cells whose videos were scored.
 *
 * A VBench result file is one JSON object {dimension: [aggregate, [{"video_path", "video_results"},
 * ...]], ...}. Depending on the dimension a video's score is in 0..1, 0..100, or a cosine in -1..1.
 * The aggregate may have another scale (imaging_quality), and may be a mean over frames instead of
 * videos (subject_consistency). Scores are stored as metric `vbench.DIMENSION`, divided by 100 if
 * in percent. The scale is the one at which the aggregate is an average of the videos' scores; if
 * none fits, or a value has another type, the file is refused. NaN, written by VBench for a
 * dimension without videos, is accepted. */
#ifndef KVR_STORE_VBENCH_H
#define KVR_STORE_VBENCH_H

#include <jansson.h>

#include "harness/store/store.h"

struct kvr_vbench_result {
    int dimensions;
    int videos;        /* number of entries over all dimensions */
    int matched;       /* number of these entries that belong to a cell */
    int stored;        /* rows written: cells of one rollout share a video */
    json_t *unmatched; /* distinct file names without a cell */
    json_t *empty;     /* dimensions without videos, not counted above */
};

/* One transaction; existing scores are replaced. A video belongs to the cells whose video artifact
 * has its file name without suffix; a symbolic link (out/by-name) to those of its target.
 * KVR_EFORMAT: malformed, or a score out of range; KVR_EINVAL: a name shared by videos of several
 * rollouts that the path does not distinguish. */
enum kvr_status kvr_store_vbench(struct kvr_store *s, const char *path,
                                 struct kvr_vbench_result *out);
void kvr_vbench_free(struct kvr_vbench_result *r); /* accepts {0} */

#endif
