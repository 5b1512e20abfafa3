/* attend_split.h - how attention over many keys is cut into blocks that end together.
 *
 * A multiprocessor has one block at a time, or two at half the speed. Of n blocks as many as fill all multiprocessors evenly
 * see every tile of keys; the n % SMS that are left over are cut into parts, each a block of its own
 * with some of the tiles, whose sums a second launch adds up in order. Where n is below SMS that is
 * all of them: few queries, many keys. How many parts: those that end soonest,
 *
 *     rounds(n_cut parts / SMS) (tiles / parts + OVERHEAD),
 *
 * where OVERHEAD is what a part costs besides, in tiles: queries to load, 66 KB of sums to leave and
 * to add up. The plan follows from these numbers alone, so that the same call has the same sums on
 * every device and every time. */
#ifndef KVR_CACHE_ATTEND_SPLIT_H
#define KVR_CACHE_ATTEND_SPLIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_ATTEND_SPLIT_SMS = 132,       /* of an H100 and an H200 */
    KVR_ATTEND_SPLIT_OVERHEAD = 4,    /* tiles */
    KVR_ATTEND_SPLIT_SLOTS = 2 * 132, /* parts in all, at most */
    KVR_ATTEND_SPLIT_QUERIES = 128    /* of a block */
};

struct kvr_attend_split {
    int64_t n_whole, n_cut; /* blocks that see all tiles; the others, */
    int parts;              /* of which each has so many parts, */
    int64_t tiles;          /* and each of these so many tiles, the last perhaps fewer */
};

/* `slots`: room for the sums of so many parts. parts >= 1; n_cut is 0 where nothing is cut. */
struct kvr_attend_split kvr_attend_split_of(int64_t n_blocks, int64_t n_tiles, int64_t slots);

/* Slots that n_blocks or fewer can use. */
int64_t kvr_attend_split_slots(int64_t n_blocks);

/* Rounds of a multiprocessor times tiles, with what parts cost besides. */
int64_t kvr_attend_split_time(const struct kvr_attend_split *s, int64_t n_tiles);

#ifdef __cplusplus
}
#endif
#endif
