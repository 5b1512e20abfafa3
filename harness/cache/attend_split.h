/* attend_split.h - split-KV: divides attention over many keys among CTAs so that all SMs finish at
 * about the same time.
 *
 * The cost model assumes that an SM runs one CTA at full speed, or two CTAs at half speed. SMS is
 * the number of SMs that the model assumes (KVR_ATTEND_SPLIT_SMS). Query blocks that fill whole
 * waves of CTAs are not split: one CTA processes a block over all tiles of keys. The last n % SMS
 * of n query blocks would fill a wave only partly. These last n % SMS query blocks are divided
 * along the keys into KV splits (parts), with one CTA per split. A second launch merges the partial
 * results of the KV splits in a fixed order. If n < SMS (few queries, many keys), all query blocks
 * are split. The number of KV splits per block, `parts`, minimizes the estimated time of the split
 * blocks; n_cut is the number of split blocks:
 *
 *     ceil(n_cut parts / SMS) (tiles / parts + OVERHEAD)
 *
 * `tiles` is the number of tiles of keys, and the unit of time is the time per tile. OVERHEAD is
 * the extra time of a KV split: loading the queries, writing 65 KiB of partial results, and merging
 * them. SMS is a constant, even on a device with another number of SMs, so that the summation order
 * is the same on every device. */
#ifndef KVR_CACHE_ATTEND_SPLIT_H
#define KVR_CACHE_ATTEND_SPLIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_ATTEND_SPLIT_SMS = 132,       /* number of SMs of an H100 or an H200 */
    KVR_ATTEND_SPLIT_OVERHEAD = 4,    /* extra time of a KV split, in units of the time per tile of
                                       * keys */
    KVR_ATTEND_SPLIT_SLOTS = 2 * 132, /* maximum number of partial results per launch */
    KVR_ATTEND_SPLIT_QUERIES = 128    /* query rows per CTA */
};

struct kvr_attend_split {
    int64_t n_whole, n_cut; /* n_whole: number of query blocks that are not split; n_cut: number of
                             * query blocks that are split */
    int parts;              /* number of KV splits per query block that is split */
    int64_t tiles;          /* tiles of keys per KV split; the last split may have fewer */
};

/* Chooses the KV splits of n_blocks query blocks over n_tiles tiles of keys, with at most `slots`
 * partial results. The result has parts >= 1; n_cut is 0 if no block is split. */
struct kvr_attend_split kvr_attend_split_of(int64_t n_blocks, int64_t n_tiles, int64_t slots);

/* Maximum number of partial results of a launch with up to n_blocks query blocks. */
int64_t kvr_attend_split_slots(int64_t n_blocks);

/* Estimated time of attention, in units of the time per tile of keys: the number of waves of CTAs
 * times the tiles per CTA, plus the overhead of KV splits. */
int64_t kvr_attend_split_time(const struct kvr_attend_split *s, int64_t n_tiles);

#ifdef __cplusplus
}
#endif
#endif
