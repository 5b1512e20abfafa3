/* rng.h - counter-based random numbers by Philox 4x32-10 (Salmon et al., 2011).
 *
 * A random number is a function of a stream and of the number's index in the stream, without hidden
 * state. Any part of a noise tensor can therefore be generated on its own, on any thread, with the
 * same result.
 *
 * A stream is identified by its seed, its purpose `use` (enum kvr_rng_use), and two numbers a and b
 * that the caller chooses, for example a frame index. Element i of a stream is computed from word i
 * % 4 of Philox block i / 4. A Box-Muller transform turns words 2j and 2j + 1 into elements 2j and
 * 2j + 1 of a stream of normally distributed numbers. Philox computes the four words of block
 * number `block` from the following key and counter:
 *     key     = { low 32 bits of seed, high 32 bits of seed }
 *     counter = { low 32 bits of block, use << 24 | bits 32..55 of block, a, b } */
#ifndef KVR_CORE_RNG_H
#define KVR_CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes one Philox block, of four words, from counter[4] and key[2]. The function is tested with
 * the published known-answer vectors. */
void kvr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Purpose of a stream of random numbers. The Philox counter contains the purpose, so streams of
 * different purposes are independent. */
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

/* Writes n elements of the stream (seed, use, a, b), starting at index `first`, to dst as standard
 * normal values. The values are computed by a Box-Muller transform in double precision and rounded
 * to float (normal_pair.h). */
void kvr_normal(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                uint64_t first);
/* Like kvr_normal, but with values that are uniform in [0,1) and multiples of 2^-24. */
void kvr_uniform(float *dst, size_t n, uint64_t seed, enum kvr_rng_use use, uint32_t a, uint32_t b,
                 uint64_t first);

#ifdef __cplusplus
}
#endif
#endif
