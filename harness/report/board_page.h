/* board_page.h - renders the board's JSON as a page of HTML and CSS only, which works from file://
 * without scripts. */
#ifndef KVR_REPORT_BOARD_PAGE_H
#define KVR_REPORT_BOARD_PAGE_H

#include <jansson.h>

#include "harness/core/status.h"

/* `doc`: JSON from board.c; *out: malloc'd. KVR_ENOMEM. */
enum kvr_status kvr_board_page(const json_t *doc, char **out);

#endif
