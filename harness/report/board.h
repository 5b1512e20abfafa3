/* board.h - a static leaderboard from several databases.
 *
 *     const char *const files[] = { "a.db", "b.kvresult", NULL };
 *     KVR_TRY(kvr_board_write(files, "board", "psnr", &r));
 *
 * writes board/index.html, board/board.json with the same content, and board/configs/ with the
 * sweeps that the page's rerun commands use.
 *
 * Runs are compared only within one model (by the weights' hash), one group of settings and one
 * machine with its GPU. If two databases contain the same cell in the same place, the first counts.
 * Methods with equal bits per element, rounded up, form a class. A method's rank is 1 + the number
 * of methods that are significantly better: paired over at least KVR_PAIRS_MIN shared prompts, with
 * Holm's correction over all pairs of the class (pairs.h). Equal ranks are ties. */
#ifndef KVR_REPORT_BOARD_H
#define KVR_REPORT_BOARD_H

#include "harness/core/status.h"

struct kvr_board_result {
    int n_sources, n_places, n_rows;
    int n_shared;    /* cells that an earlier source already has */
    int n_different; /* shared cells whose value differs between sources */
};

/* files, NULL-terminated: databases, or packages (submission.h), which are verified first.
 * KVR_EFORMAT: a package was altered; KVR_EINVAL: no such metric; KVR_ENOTFOUND: no run has this
 * metric. */
enum kvr_status kvr_board_write(const char *const *files, const char *dir, const char *metric,
                                struct kvr_board_result *out);

#endif
