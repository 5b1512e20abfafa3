/* shots.h - a prompt of several shots as one line of text.
 *
 *     @0: a dog runs across the grass; @4: the same dog sleeps by the fire
 *
 * Each shot says at which chunk it begins, the first at 0, then its text; "; @" and a number part them.
 * A line that does not begin with "@0:" is one shot, whatever it holds. Models with a vocabulary of their own
 * read the same line by their grammar (prompt.h), whose acts are the shots. */
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

/* n_chunks 0: of any length. KVR_EINVAL, with the place: shots that do not ascend, an empty text, a chunk
 * that the video does not have. On failure there is nothing to free. */
enum kvr_status kvr_shot_line_parse(const char *text, int n_chunks, struct kvr_shot_line *out);
void kvr_shot_line_free(struct kvr_shot_line *s); /* accepts {0} */
/* The shot that is on at `chunk`. */
int kvr_shot_at(const struct kvr_shot_line *s, int chunk);

#endif
