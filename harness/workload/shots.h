/* shots.h - parses a prompt of several shots, written as one line of text.
 *
 *     @0: a dog runs across the grass; @4: the same dog sleeps by the fire
 *
 * "@N:" begins a shot whose first chunk is N, and a semicolon separates two shots. A line that does
 * not start with "@0:" is one shot. For models with their own vocabulary, the parser in prompt.h
 * reads the prompt instead and calls a shot an act. */
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

/* Parses the prompt of a video of n_chunks chunks. If n_chunks is 0, the video's length is unknown,
 * and the function does not check that the shots begin in the video. Returns KVR_EINVAL if a shot's
 * text is empty, or if the first chunks of the shots do not ascend or are not in the video. After
 * an error there is nothing to free. */
enum kvr_status kvr_shot_line_parse(const char *text, int n_chunks, struct kvr_shot_line *out);
void kvr_shot_line_free(struct kvr_shot_line *s); /* accepts {0} */
/* Returns the index of the shot that contains `chunk`. */
int kvr_shot_at(const struct kvr_shot_line *s, int chunk);

#endif
