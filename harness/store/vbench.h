/* vbench.h - scores of VBench become metrics of the cells whose videos it looked at.
 *
 * A VBench result file is one JSON object {dimension: [aggregate, [{"video_path", "video_results"},
 * ...]], ...}. Some dimensions give a video's score in 0..1, some in 0..100, a cosine in -1..1, and
 * the aggregate need not be on the same scale (imaging_quality's is not), nor the mean of the videos
 * (subject_consistency's is the mean of all frames). Scores are stored as metric `vbench.DIMENSION`,
 * divided by 100 where they are in percent. The scale is the one at which the aggregate is an average
 * of the videos' scores; a file where none fits is refused, and so is a value of another type. NaN,
 * which VBench writes for a dimension without videos, is read. */
#ifndef KVR_STORE_VBENCH_H
#define KVR_STORE_VBENCH_H

#include <jansson.h>

#include "harness/store/store.h"

struct kvr_vbench_result {
    int dimensions;
    int videos;        /* entries of all dimensions */
    int matched;       /* of these, with a cell */
    int stored;        /* rows written: cells that share a rollout have one video */
    json_t *unmatched; /* file names without a cell, each once */
    json_t *empty;     /* dimensions without a video, not counted above */
};

/* All of the file or nothing, in one transaction; scores that were there are replaced. A video
 * belongs to the cells whose video artifact has its file name, the suffix left out. KVR_EFORMAT:
 * not such a file, or a score out of range; KVR_EINVAL: a name that videos of several rollouts
 * have, and the path does not tell them apart. */
enum kvr_status kvr_store_vbench(struct kvr_store *s, const char *path,
                                 struct kvr_vbench_result *out);
void kvr_vbench_free(struct kvr_vbench_result *r); /* copes with {0} */

#endif
