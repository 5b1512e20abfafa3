/* vbench.h - imports VBench scores as metrics of cells.
 *
 * A VBench result file is one JSON object {dimension: [aggregate, [{"video_path", "video_results"},
 * ...]], ...}. Depending on the dimension, a video's score ranges over 0..1, over 0..100 or, if it
 * is a cosine, over -1..1. In some dimensions, such as imaging_quality, the aggregate has a
 * different scale from the scores. In others, such as subject_consistency, the aggregate is a mean
 * over frames instead of videos. Scores are stored as the metric `vbench.DIMENSION`; scores in
 * percent are divided by 100. The file does not state whether scores are fractions or percentages.
 * The import chooses the scale at which the aggregate is a plain or weighted mean of the scores. If
 * neither scale fits, or a value is neither a number nor a boolean, the file is rejected. VBench
 * writes NaN for a dimension without videos, which is accepted. */
#ifndef KVR_STORE_VBENCH_H
#define KVR_STORE_VBENCH_H

#include <jansson.h>

#include "harness/store/store.h"

struct kvr_vbench_result {
    int dimensions;
    int videos;        /* number of video entries, summed over dimensions */
    int matched;       /* number of video entries that belong to a cell */
    int stored;        /* number of metric rows written; a video's score is written once for each of
                        * its cells, since cells with identical rollouts share a video */
    json_t *unmatched; /* names of videos that belong to no cell */
    json_t *empty;     /* names of dimensions whose list of videos is empty; `dimensions` does not
                        * count them */
};

/* Imports a VBench result file in one transaction and replaces existing scores. The score of a
 * video is stored in every cell whose video file has the same name, compared without suffix. If
 * "video_path" is a symbolic link (as in out/by-name), the name of its target is compared.
 * KVR_EFORMAT: the file is malformed, or a score is out of range. KVR_EINVAL: videos of several
 * rollouts have the name of a video in the file, and the folders in "video_path" do not identify
 * one rollout. */
enum kvr_status kvr_store_vbench(struct kvr_store *s, const char *path,
                                 struct kvr_vbench_result *out);
void kvr_vbench_free(struct kvr_vbench_result *r); /* accepts {0} */

#endif
