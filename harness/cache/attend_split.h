/* attend_split.h - split-KV: divides attention over many keys into CTAs that finish together.
 *
 * An SM runs one CTA at a time, or two at half the speed. The CTAs of complete waves process all
 * tiles of keys. The remaining n % SMS query blocks, n being their total number, are split along
 * KV into parts, one CTA each. A second launch merges the partial results in order. With n < SMS
 * (few queries, many keys) all blocks are split. The number of parts minimises
 *
 *     rounds(n_cut parts / SMS) (tiles / parts + OVERHEAD),
 *
 * where OVERHEAD is the extra cost of a part in tiles: loading queries, and writing and merging 66
 * KB of partial results. SMS is a constant, so a call has the same summation order on every
 * device. */
#ifndef KVR_CACHE_ATTEND_SPLIT_H
#define KVR_CACHE_ATTEND_SPLIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_ATTEND_SPLIT_SMS = 132,       /* SMs of an H100 and an H200 */
    KVR_ATTEND_SPLIT_OVERHEAD = 4,    /* extra cost of a part, in tiles */
    KVR_ATTEND_SPLIT_SLOTS = 2 * 132, /* maximum number of parts */
    KVR_ATTEND_SPLIT_QUERIES = 128    /* query rows per CTA */
};

struct kvr_attend_split {
    int64_t n_whole, n_cut; /* query blocks of one CTA each, which processes all tiles; query blocks
                             * that are split */
    int parts;              /* parts of each split block */
    int64_t tiles;          /* tiles per part; the last may have fewer */
};

/* slots: number of partial results that fit. parts >= 1; n_cut is 0 if nothing is split. */
struct kvr_attend_split kvr_attend_split_of(int64_t n_blocks, int64_t n_tiles, int64_t slots);

/* Slots that a launch of up to n_blocks CTAs can use. */
int64_t kvr_attend_split_slots(int64_t n_blocks);

/* Estimated time in tiles: waves times tiles, with the overhead of parts. */
int64_t kvr_attend_split_time(const struct kvr_attend_split *s, int64_t n_tiles);

#ifdef __cplusplus
}
#endif
#endif
