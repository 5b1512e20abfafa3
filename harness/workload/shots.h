/* shots.h - a prompt of several shots as one line of text.
 *
 *     @0: a dog runs across the grass; @4: the same dog sleeps by the fire
 *
 * Each shot has its first chunk, 0 for the first shot, and its text; "; @" and a number separate
 * shots. A line that does not start with "@0:" is one shot. Models with their own vocabulary parse
 * the same line by their grammar (prompt.h), whose acts are the shots. */
#ifndef KVR_WORKLOAD_SHOTS_H
#define KVR_WORKLOAD_SHOTS_H

#include <stddef.h>

#include "harness/core/status.h"

enum { KVR_MAX_SHOTS = 32 };

struct kvr_shot_line {
    int n;
    struct {
        int from_chunk; /* ascending from 0 */
        char *text;     /* owned */
    } shot[KVR_MAX_SHOTS];
};

/* n_chunks 0: any length. KVR_EINVAL, with the position: shots that do not ascend, an empty text,
 * or a chunk past the end of the video. On failure there is nothing to free. */
enum kvr_status kvr_shot_line_parse(const char *text, int n_chunks, struct kvr_shot_line *out);
void kvr_shot_line_free(struct kvr_shot_line *s); /* accepts {0} */
/* Index of the shot at `chunk`. */
int kvr_shot_at(const struct kvr_shot_line *s, int chunk);

#endif
