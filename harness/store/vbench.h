/* vbench.h - scores of VBench become metrics of the cells whose videos it looked at.
 *
 * A VBench result file is one JSON object {dimension: [aggregate, [{"video_path", "video_results"},
 * ...]], ...}. Some dimensions give a video's score between 0 and 1, some between 0 and 100, and
 * the aggregate need not be on the same scale (imaging_quality's is not). Here every score is
 * stored between 0 and 1, as metric `vbench.DIMENSION`; the scale is found by comparing the mean
 * of the videos with the aggregate, and a file where neither scale fits is refused. */
#ifndef KVR_STORE_VBENCH_H
#define KVR_STORE_VBENCH_H

#include <jansson.h>

#include "harness/store/store.h"

struct kvr_vbench_result {
    int dimensions;
    int videos;        /* entries of all dimensions */
    int matched;       /* of these, with a cell */
    int stored;        /* rows written: cells that share a rollout have one video */
    json_t *unmatched; /* file names without a cell, each once; json_decref() */
};

/* All of the file or nothing, in one transaction; scores that were there are replaced. A video
 * belongs to the cells whose video artifact has its file name, the suffix left out. KVR_EFORMAT:
 * not such a file, or a score out of range; KVR_EINVAL: a name that videos of several rollouts
 * have, and the path does not tell them apart. */
enum kvr_status kvr_store_vbench(struct kvr_store *s, const char *path,
                                 struct kvr_vbench_result *out);

#endif
