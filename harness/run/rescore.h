/* rescore.h - more metrics for cells that were measured before, from the frames they left.
 *
 * Nothing is generated again: the frames in the out folder are read, checked against the
 * database, and compared with those of the cell's baseline. */
#ifndef KVR_RUN_RESCORE_H
#define KVR_RUN_RESCORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_rescore_options {
    const char *db_path, *out_dir;
    const json_t *metrics;   /* {"psnr": 1, ...} */
    const json_t *commands;  /* harness/plan/commands.h; NULL: none */
    const char *const *only; /* keys of cells, sorted; NULL: all */
    int n_only;
    bool force;            /* also where the metric is there already */
    bool (*stopped)(void); /* asked between cells; NULL: nobody asks */
    FILE *progress;        /* a line per cell that failed; NULL: quiet */
};

struct kvr_rescore_summary {
    int cells;  /* OK cells of the database, of `only` */
    int scored; /* of these, with new rows */
    int had;    /* that had everything before */
    int failed; /* whose frames are gone or are not those that were measured */
    bool stopped;
};

/* Each cell's rows are written together. KVR_ENOTFOUND: no such database, or a metric that is
 * none. A cell that fails is counted, and the others go on. */
enum kvr_status kvr_rescore(const struct kvr_rescore_options *o, struct kvr_rescore_summary *out);

#endif
