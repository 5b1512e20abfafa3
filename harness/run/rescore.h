/* rescore.h - computes more metrics for finished cells (measured runs) from their stored frames.
 *
 * No model runs. The frames are read from the out folder, and their hashes are checked against the
 * database. The metrics compare these frames with the frames of the cell's BF16 baseline. */
#ifndef KVR_RUN_RESCORE_H
#define KVR_RUN_RESCORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_rescore_options {
    const char *db_path, *out_dir;
    const json_t *metrics;   /* {"psnr": 1, ...} */
    const json_t *commands;  /* external metric programs (plan/commands.h; NULL: none) */
    const char *const *only; /* sorted keys [n_only] (input hashes) of the cells to score (NULL: all
                              * cells) */
    int n_only;
    bool force;            /* whether to recompute metrics that are already stored */
    bool (*stopped)(void); /* called between two cells; if it returns true, rescoring stops
                            * (NULL: not called) */
    FILE *progress;        /* stream for one line per failed cell (NULL: no output) */
};

struct kvr_rescore_summary {
    int cells;  /* number of cells in the database with outcome OK that the option `only` selects */
    int scored; /* number of cells for which new metrics were computed */
    int had;    /* number of cells that already had all metrics */
    int failed; /* number of cells that could not be scored, for example because their frames are
                 * missing or changed */
    bool stopped;
};

/* Computes the metrics that the stored cells lack. The results of one cell are written in one
 * transaction. If a cell fails, it is counted in `failed` and the remaining cells continue. Returns
 * KVR_ENOTFOUND if the database does not exist, and KVR_EUNSUPPORTED if a metric does not exist in
 * this build. */
enum kvr_status kvr_rescore(const struct kvr_rescore_options *o, struct kvr_rescore_summary *out);

#endif
