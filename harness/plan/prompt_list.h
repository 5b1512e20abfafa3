/* prompt_list.h - reads a text file with one prompt per line.
 *
 *     KVR_TRY(kvr_prompt_list_read(&l, "MovieGenVideoBench.txt"));
 *     ... l.line[i].id ("p0001"), l.line[i].text, l.line[i].number ...
 *     kvr_prompt_list_free(&l);
 *
 * The ids p0001, p0002, ... number the non-blank lines of the file. */
#ifndef KVR_PLAN_PROMPT_LIST_H
#define KVR_PLAN_PROMPT_LIST_H

#include "harness/core/status.h"

enum { KVR_LINE_ID = 16 };

struct kvr_line {
    char id[KVR_LINE_ID];
    const char *text;
    int number; /* line number in the file, from 1 */
};

struct kvr_prompt_list {
    char *all; /* text of the file, into which line[i].text points */
    struct kvr_line *line;
    int n;
};

/* KVR_ENOTFOUND: no such file. KVR_EINVAL: the file has no prompt, or more than 100,000 lines. On
 * failure the caller has nothing to free. */
enum kvr_status kvr_prompt_list_read(struct kvr_prompt_list *l, const char *path);
void kvr_prompt_list_free(struct kvr_prompt_list *l); /* accepts {0} */

#endif
