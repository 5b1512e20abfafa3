/* board_page.h - renders the leaderboard's JSON as a page of HTML and CSS without scripts, which
 * works from file://. */
#ifndef KVR_PAGE_BOARD_PAGE_H
#define KVR_PAGE_BOARD_PAGE_H

#include <jansson.h>

#include "harness/core/status.h"

/* Sets *out to the page for `doc`, the JSON of board.c; the caller frees *out. KVR_ENOMEM. */
enum kvr_status kvr_board_page(const json_t *doc, char **out);

#endif
