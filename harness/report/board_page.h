/* board_page.h - the board's JSON as a page: markup and style alone, so that it works from file:// and without
 * scripts. */
#ifndef KVR_REPORT_BOARD_PAGE_H
#define KVR_REPORT_BOARD_PAGE_H

#include <jansson.h>

#include "harness/core/status.h"

/* `doc` as board.c writes it; *out: malloc'd. KVR_ENOMEM. */
enum kvr_status kvr_board_page(const json_t *doc, char **out);

#endif
