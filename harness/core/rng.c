/* rng.c - Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011. */
#include "harness/core/rng.h"

#include "harness/core/normal_pair.h"

enum { ROUNDS = 10, BLOCK = 4 };

static void one_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint64_t p0 = 0xD2511F53ull * c[0];
    uint64_t p1 = 0xCD9E8D57ull * c[2];
    uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)p0;
}

void kvr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = { counter[0], counter[1], counter[2], counter[3] };
    uint32_t k0 = key[0], k1 = key[1];

    for (int r = 0; r < ROUNDS; r++) {
        one_round(c, k0, k1);
        k0 += 0x9E3779B9u; /* golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

struct stream {
    uint64_t seed;
    uint32_t use, a, b;
};

static void draw(const struct stream *s, uint64_t block, uint32_t out[BLOCK])
{
    uint32_t key[2] = { (uint32_t)s->seed, (uint32_t)(s->seed >> 32) };
    uint32_t counter[4] = {
        (uint32_t)block,
        s->use << 24 | ((uint32_t)(block >> 32) & 0xffffffu),
        s->a,
        s->b,
    };

    kvr_philox(counter, key, out);
}

static void uniform_block(const struct stream *s, uint64_t block, float out[BLOCK])
{
    uint32_t u[BLOCK];

    draw(s, block, u);
    for (int i = 0; i < BLOCK; i++) /* a float holds 24 bits exactly, so no value rounds up to 1 */
        out[i] = (float)(u[i] >> 8) * 0x1p-24f;
}

static void normal_block(const struct stream *s, uint64_t block, float out[BLOCK])
{
    uint32_t u[BLOCK];

    draw(s, block, u);
    for (int i = 0; i < BLOCK; i += 2)
        kvr_normal_pair(u[i], u[i + 1], out + i);
}

typedef void block_fn(const struct stream *s, uint64_t block, float out[BLOCK]);

static void fill(float *dst, size_t n, const struct stream *s, uint64_t first, block_fn *make)
{
    size_t done = 0;

    while (done < n) {
        uint64_t i = first + done;
        float four[BLOCK];

        make(s, i / BLOCK, four);
        for (int j = (int)(i % BLOCK); j < BLOCK && done < n; j++)
            dst[done++] = four[j];
    }
}

void kvr_normal(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                uint64_t first)
{
    const struct stream s = { seed, (uint32_t)use, a, b };

    fill(dst, n, &s, first, normal_block);
}

void kvr_uniform(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                 uint64_t first)
{
    const struct stream s = { seed, (uint32_t)use, a, b };

    fill(dst, n, &s, first, uniform_block);
}
