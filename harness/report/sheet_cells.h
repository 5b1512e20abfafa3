/* sheet_cells.h - a contact sheet of cells of a database: the baseline and methods.
 *
 *     const struct kvr_sheet_cells c = { .db = "kvreel.db",
 *                                        .methods = (const char *[]){ "RTN_INT2" },
 *                                        .n_methods = 1, .worst = true, .columns = 8, .scale = 2 };
 *     struct kvr_sheet_origin told;
 *     KVR_TRY(kvr_sheet_of_cells(&c, "sheet.png", &told)); */
#ifndef KVR_REPORT_SHEET_CELLS_H
#define KVR_REPORT_SHEET_CELLS_H

#include <stdbool.h>

#include "harness/core/status.h"

struct kvr_sheet_cells {
    const char *db;
    const char *const *methods; /* as displayed; the first one determines prompt and frames */
    int n_methods;
    const char *prompt; /* id of the prompt; NULL: the first prompt, or with `worst` the one with
                         * the lowest SSIM */
    const char *media;  /* the sweep's out folder; NULL: searched near the database */
    bool worst;         /* frames with the lowest SSIM instead of evenly spaced ones */
    int columns, scale;
};

struct kvr_sheet_origin {
    char key[33], suite[128], prompt[128]; /* key, suite and prompt of the first method's cell */
    int n_like;                            /* number of cells of this method and prompt */
};

/* Only finished cells are used; all rows have the same baseline. KVR_ENOTFOUND: no such cell (with
 * the nearest method), or its frames are missing; KVR_EFORMAT: the frames differ from the measured
 * frames. */
enum kvr_status kvr_sheet_of_cells(const struct kvr_sheet_cells *c, const char *out,
                                   struct kvr_sheet_origin *origin);

#endif
