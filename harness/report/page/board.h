/* board.h - writes a static leaderboard from several databases.
 *
 *     const char *const files[] = { "a.db", "b.kvresult", NULL };
 *     KVR_TRY(kvr_board_write(files, "board", "psnr", &r));
 *
 * The function kvr_board_write writes board/index.html, board/board.json with the same content, and
 * board/configs/ with the sweep files that the page's rerun commands use.
 *
 * Runs are compared only if they have the same model (identified by the hash of its weights),
 * settings, machine and GPU. If two databases contain the same cell, measured on the same machine
 * and GPU, the board shows the cell of the database listed first. Methods whose bits per element
 * round up to the same integer form a class. A method's rank is 1 + the number of methods of its
 * class that are significantly better; equal ranks are ties. Significance is decided by a paired
 * test of the metric over at least KVR_PAIRS_MIN shared prompts, with Holm's correction over all
 * pairs of methods in the class (pairs.h). */
#ifndef KVR_PAGE_BOARD_H
#define KVR_PAGE_BOARD_H

#include "harness/core/status.h"

struct kvr_board_result {
    int n_sources, n_places, n_rows;
    int n_shared;    /* number of cells (rollouts) that more than one database contains */
    int n_different; /* number of cells that several databases contain with different values of the
                      * metric */
};

/* `files` is a NULL-terminated list of databases or exported sweeps (submission.h). The checksums
 * of exported sweeps are verified first. KVR_EFORMAT: an exported sweep was altered; KVR_EINVAL: no
 * such metric; KVR_ENOTFOUND: no run has this metric. */
enum kvr_status kvr_board_write(const char *const *files, const char *dir, const char *metric,
                                struct kvr_board_result *out);

#endif
