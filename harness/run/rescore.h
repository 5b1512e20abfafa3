/* rescore.h - computes more metrics for finished cells from their stored frames.
 *
 * Nothing is generated: frames in the out folder are read, checked against the database, and
 * compared with those of the cell's baseline. */
#ifndef KVR_RUN_RESCORE_H
#define KVR_RUN_RESCORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_rescore_options {
    const char *db_path, *out_dir;
    const json_t *metrics;   /* {"psnr": 1, ...} */
    const json_t *commands;  /* harness/plan/commands.h; NULL: no commands */
    const char *const *only; /* keys of cells, sorted; NULL: all */
    int n_only;
    bool force;            /* compute a metric again even if it is stored */
    bool (*stopped)(void); /* polled between cells; NULL: never */
    FILE *progress;        /* one line per failed cell; NULL: quiet */
};

struct kvr_rescore_summary {
    int cells;  /* OK cells of the database, within `only` */
    int scored; /* cells with new rows */
    int had;    /* cells that already had all metrics */
    int failed; /* cells whose frames are missing or changed */
    bool stopped;
};

/* Each cell's rows are written in one transaction. KVR_ENOTFOUND: no such database or metric. A
 * failed cell is counted, and the others continue. */
enum kvr_status kvr_rescore(const struct kvr_rescore_options *o, struct kvr_rescore_summary *out);

#endif
