/* board.h - many databases as one leaderboard that needs no server.
 *
 *     const char *const files[] = { "a.db", "b.kvresult", NULL };
 *     KVR_TRY(kvr_board_write(files, "board", "psnr", &r));
 *
 * writes board/index.html, board/board.json with the same content, and board/configs/ with the sweeps that
 * the commands to run a row again name.
 *
 * Runs are compared within one model (by the weights' hash), one group of settings and one machine with its
 * card, never across. If two databases hold the same cell in the same place, the first counts. Methods
 * of equal bits per element, rounded up, form a class. The rank is 1 + the number of methods that are better beyond doubt: paired over shared
 * prompts, at least KVR_PAIRS_MIN of them, with Holm's correction over all pairs of the class (pairs.h). Equal
 * ranks are ties. */
#ifndef KVR_REPORT_BOARD_H
#define KVR_REPORT_BOARD_H

#include "harness/core/status.h"

struct kvr_board_result {
    int n_sources, n_places, n_rows;
    int n_shared;    /* cells that were in an earlier source */
    int n_different; /* of these, with another value */
};

/* files, NULL-terminated: databases, or packages of submission.h, each verified first. KVR_EFORMAT: one is not
 * as it was written; KVR_EINVAL: no such metric; KVR_ENOTFOUND: no run has it. */
enum kvr_status kvr_board_write(const char *const *files, const char *dir, const char *metric,
                                struct kvr_board_result *out);

#endif
