/* prompt_list.h - a text file with a prompt on each line, as other programs keep their lists.
 *
 *     KVR_TRY(kvr_prompt_list_read(&l, "MovieGenVideoBench.txt"));
 *     ... l.line[i].id ("p0001"), l.line[i].text, l.line[i].number ...
 *     kvr_prompt_list_free(&l);
 *
 * Line i, counted from 1 without those of blanks alone, is prompt p000i. */
#ifndef KVR_PLAN_PROMPT_LIST_H
#define KVR_PLAN_PROMPT_LIST_H

#include "harness/core/status.h"

enum { KVR_LINE_ID = 16 };

struct kvr_line {
    char id[KVR_LINE_ID];
    const char *text;
    int number; /* in the file, from 1 */
};

struct kvr_prompt_list {
    char *all; /* what the texts are in */
    struct kvr_line *line;
    int n;
};

/* KVR_ENOTFOUND: no such file; KVR_EINVAL: no prompt in it, or too many. On failure there is
 * nothing to free. */
enum kvr_status kvr_prompt_list_read(struct kvr_prompt_list *l, const char *path);
void kvr_prompt_list_free(struct kvr_prompt_list *l); /* accepts {0} */

#endif
