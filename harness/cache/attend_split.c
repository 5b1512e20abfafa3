/* attend_split.c - see attend_split.h. */
#include "harness/cache/attend_split.h"

enum { SMS = KVR_ATTEND_SPLIT_SMS, MOST_PARTS = 64 };

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int64_t kvr_attend_split_time(const struct kvr_attend_split *s, int64_t n_tiles)
{
    return quotient_up(s->n_whole, SMS) * n_tiles +
           quotient_up(s->n_cut * s->parts, SMS) * (s->tiles + KVR_ATTEND_SPLIT_OVERHEAD);
}

struct kvr_attend_split kvr_attend_split_of(int64_t n_blocks, int64_t n_tiles, int64_t slots)
{
    struct kvr_attend_split best = { n_blocks, 0, 1, n_tiles };
    const int64_t n_cut = n_blocks % SMS;

    for (int parts = 2; n_cut && parts <= MOST_PARTS && parts <= n_tiles; parts++) {
        const int64_t tiles = quotient_up(n_tiles, parts);
        const struct kvr_attend_split s = { n_blocks - n_cut, n_cut,
                                            (int)quotient_up(n_tiles, tiles), tiles };

        if (s.n_cut * s.parts <= slots &&
            kvr_attend_split_time(&s, n_tiles) < kvr_attend_split_time(&best, n_tiles))
            best = s;
    }
    return best;
}

int64_t kvr_attend_split_slots(int64_t n_blocks)
{
    const int64_t all = n_blocks < SMS ? n_blocks * MOST_PARTS : KVR_ATTEND_SPLIT_SLOTS;

    return all < KVR_ATTEND_SPLIT_SLOTS ? all : KVR_ATTEND_SPLIT_SLOTS;
}
