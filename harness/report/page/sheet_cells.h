/* sheet_cells.h - writes a contact sheet: a row of frames for the baseline and for each method.
 *
 *     const struct kvr_sheet_cells c = { .db = "kvreel.db",
 *                                        .methods = (const char *[]){ "RTN_INT2" },
 *                                        .n_methods = 1, .worst = true, .columns = 8, .scale = 2 };
 *     struct kvr_sheet_origin origin;
 *     KVR_TRY(kvr_sheet_of_cells(&c, "sheet.png", &origin)); */
#ifndef KVR_PAGE_SHEET_CELLS_H
#define KVR_PAGE_SHEET_CELLS_H

#include <stdbool.h>

#include "harness/core/status.h"

struct kvr_sheet_cells {
    const char *db;
    const char *const *methods; /* labels of the methods [n_methods]; the first method's rollout
                                 * determines the prompt and, if `worst` is true, which frames are
                                 * shown */
    int n_methods;
    const char *prompt; /* id of the prompt (NULL: the first prompt, or with `worst` the prompt with
                         * the lowest SSIM) */
    const char *media;  /* path of the sweep's output folder (NULL: search for the folder near the
                         * database) */
    bool worst;         /* shows the frames with the lowest SSIM instead of evenly spaced frames */
    int columns, scale;
};

struct kvr_sheet_origin {
    char key[33], suite[128], prompt[128]; /* key, suite and prompt id of the first method's cell */
    int n_like;                            /* number of OK cells (rollouts) of methods[0] with this
                                            * suite and prompt */
};

/* Writes the contact sheet to the file `out`. All rollouts in the sheet have outcome OK and the
 * same BF16 baseline, namely the baseline of the rollout of c->methods[0]. KVR_ENOTFOUND: a method
 * has no matching cell (the message suggests the nearest method), or the frames of a cell are
 * missing. KVR_EFORMAT: the frames on disk differ from the measured frames. */
enum kvr_status kvr_sheet_of_cells(const struct kvr_sheet_cells *c, const char *out,
                                   struct kvr_sheet_origin *origin);

#endif
