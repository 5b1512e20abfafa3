/* rng.h - counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011).
 *
 * A number is a function of (seed, stream, index) without hidden state, so any part of a noise
 * tensor can be generated on its own, on any thread, with the same result.
 *
 * Element i is word i % 4 of block i / 4 (normals: words 2j and 2j + 1 make elements 2j and 2j +
 * 1). A block is computed from
 *     key     = { low 32 bits of seed, high 32 bits of seed }
 *     counter = { low 32 bits of block, use << 24 | bits 32..55 of block, a, b } */
#ifndef KVR_CORE_RNG_H
#define KVR_CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One block: counter[4], key[2] -> out[4]. Tested with the published known-answer vectors. */
void kvr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Purpose of a stream; separates draws of different uses. */
enum kvr_rng_use {
    KVR_RNG_NOISE = 1,
    KVR_RNG_RENOISE = 2,
    KVR_RNG_TEST = 3,
    KVR_RNG_ORDER = 4,
    KVR_RNG_WEIGHTS = 5,
    KVR_RNG_SYNTHETIC = 6,
    KVR_RNG_BOOTSTRAP = 7,
    KVR_RNG_PROBE = 8,
    KVR_RNG_JITTER = 9,
    KVR_RNG_KEEP = 10
};

/* n values N(0,1) of stream (seed, use, a, b), from element `first` on. Box-Muller in
 * double precision, rounded to float (normal_pair.h). */
void kvr_normal(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                uint64_t first);
/* n values uniform in [0,1), multiples of 2^-24. */
void kvr_uniform(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                 uint64_t first);

#ifdef __cplusplus
}
#endif
#endif
