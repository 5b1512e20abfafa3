/* simd.h - vector types and operations for the *_isa.c files of methods/; a vector is one register
 * of the target instruction set.
 *
 *     for (int c = 0; c + VL <= n; c += VL)
 *         v_store(y + c, v_mul(v_load(x + c), v_set(2)));
 *
 * The vector types and operations exist for AVX2 and AVX-512. On other targets KVR_SIMD is
 * undefined, and the *_isa.c files compile their plain C code, which is the reference. Only *_isa.c
 * files include this header, directly or through another header. Its names therefore have no prefix
 * kvr_. */
#ifndef KVR_METHODS_KERNELS_SIMD_H
#define KVR_METHODS_KERNELS_SIMD_H

#include <stdint.h>

#if defined(KVR_ISA_AVX512)
#define KVR_SIMD 1
#include <immintrin.h>

enum { VL = 16 };
typedef __m512 vf;
typedef __m512i vi;

#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_set(x) _mm512_set1_ps(x)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b) /* returns b if a or b is NaN */
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_mul_add(a, b, c) _mm512_fmadd_ps(a, b, c)    /* a b + c with a single rounding */
#define v_minus_mul(a, b, c) _mm512_fnmadd_ps(a, b, c) /* c - a b with a single rounding */
#define v_nearest(v) _mm512_cvtps_epi32(v)             /* ties to even */
#define v_of_int(i) _mm512_cvtepi32_ps(i)
#define v_about_inverse(v) _mm512_rcp14_ps(v) /* 1/v, relative error <= 2^-14 (AVX2: 1.5 * 2^-12) */
#define v_bits(v) _mm512_castps_si512(v)
#define v_abs(v) _mm512_abs_ps(v)
/* bit i of the result is a[i] > b[i] */
#define v_over(a, b) ((unsigned)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define i_load(p) _mm512_loadu_si512(p)
#define i_store(p, v) _mm512_storeu_si512(p, v)
#define i_set(x) _mm512_set1_epi32(x)
#define i_bytes(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define i_and(a, b) _mm512_and_si512(a, b)
#define i_xor(a, b) _mm512_xor_si512(a, b)
/* bitwise ~a & b */
#define i_and_not(a, b) _mm512_andnot_si512(a, b)
#define i_add(a, b) _mm512_add_epi32(a, b)
#define i_sub(a, b) _mm512_sub_epi32(a, b)
#define i_left(a, n) _mm512_slli_epi32(a, n)
#define i_right(a, n) _mm512_srl_epi32(a, _mm_cvtsi32_si128(n))
#define i_sign(a) _mm512_srai_epi32(a, 31)                 /* -1 if negative, else 0 */
#define i_all_signs(a) (_mm512_movepi32_mask(a) == 0xffff) /* all negative */
/* Elements of a where the mask is set, and of b elsewhere. */
#define i_pick(mask, a, b) _mm512_ternarylogic_epi32(mask, a, b, 0xca)
#define i_min(a, b) _mm512_min_epi32(a, b)
#define i_max(a, b) _mm512_max_epi32(a, b)
#define i_min_bits(a, b) _mm512_min_epu32(a, b) /* as unsigned integers */
#define i_max_bits(a, b) _mm512_max_epu32(a, b)
#define i_least(v) _mm512_reduce_min_epi32(v)
#define i_most(v) _mm512_reduce_max_epi32(v)
#define i_most_bits(v) _mm512_reduce_max_epu32(v)
#define i_least_bits(v) _mm512_reduce_min_epu32(v)
/* all bits of an element set where a > b */
#define i_over(a, b) _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(a, b))
/* Adds 1 to the elements of a where x > y. */
#define i_one_more(a, x, y)                                                                        \
    _mm512_mask_add_epi32(a, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), a, _mm512_set1_epi32(1))
#define v_of_bits(i) _mm512_castsi512_ps(i)

/* A vector of VL 16-bit elements, such as FP16 numbers or the low halves of integers. */
typedef __m256i vh;
#define h_nearest(v) _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define h_floats(h) _mm512_cvtph_ps(h)
#define h_ints(h) _mm512_cvtepu16_epi32(h)
#define h_of_ints(i) _mm512_cvtepi32_epi16(i) /* 0..65535 */
#define h_store(p, h) _mm256_storeu_si256((__m256i *)(p), h)

/* A vector of 2 VL 16-bit integers, such as BF16 values that are compared as integers. */
#define w_max(a, b) _mm512_max_epi16(a, b)
#define w_min(a, b) _mm512_min_epi16(a, b)
#define w_max_bits(a, b) _mm512_max_epu16(a, b)
#define w_min_bits(a, b) _mm512_min_epu16(a, b)
#define w_sign(a) _mm512_srai_epi16(a, 15)
#define w_all_signs(a) (_mm512_movepi16_mask(a) == 0xffffffffu)
#define w_twice(a) _mm512_add_epi16(a, a)
#define w_sub(a, b) _mm512_sub_epi16(a, b)
#define w_set(x) _mm512_set1_epi16(x)
#define w_none_over_bits(a, b) (_mm512_cmpgt_epu16_mask(a, b) == 0) /* as unsigned integers */
#define i_none_over(a, b) (_mm512_cmpgt_epi32_mask(a, b) == 0)
/* Stores the low 16 bits of each of VL 32-bit integers to p. */
#define i_store_low(p, i) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtepi32_epi16(i))

/* 32-bit integers that have the low 16 bits of a and the high 16 bits of b. */
#define w_halves(a, b) _mm512_mask_blend_epi16(0xaaaaaaaau, a, b)
#define w_left(a, n) _mm512_slli_epi16(a, n)
#define w_add(a, b) _mm512_add_epi16(a, b)

/* Stores the low 16 bits of each integer of v to p, and the high 16 bits to q. */
static inline void i_store_split(void *p, void *q, vi v)
{
    const vi order = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30,
                                      28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const vi both = _mm512_permutexvar_epi16(order, v);

    _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(both));
    _mm256_storeu_si256((__m256i *)q, _mm512_extracti64x4_epi64(both, 1));
}

/* Stores the low 16 bits of each integer of a to p [VL], and the low 16 bits of each integer of b
 * to q [VL]. */
static inline void i_store_lows(void *p, void *q, vi a, vi b)
{
    i_store_split(p, q, w_halves(a, i_left(b, 16)));
}

/* A vector of VL / 2 doubles; VL is the number of floats per vector. */
typedef __m512d vd;
#define d_set(x) _mm512_set1_pd(x)
#define d_load_floats(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
#define d_store(p, d) _mm512_storeu_pd(p, d)
#define d_add(a, b) _mm512_add_pd(a, b)
#define d_mul_add(a, b, c) _mm512_fmadd_pd(a, b, c)
#define d_load(p) _mm512_loadu_pd(p)

/* Element i of the result is the sum of elements i and i + VL / 2 of v, in double. */
static inline vd d_pairs(vf v)
{
    return d_add(_mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                 _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

/* Bit i of the result, i < 2 VL, is 1 if |x[i]| > least[i]. The elements of x and `least` are BF16
 * numbers as 16-bit integers; `least` is not negative. */
static inline uint32_t w_bits_over(vi x, vi least)
{
    return (uint32_t)_mm512_cmpgt_epi16_mask(i_and(x, w_set(0x7fff)), least);
}

/* Stores the elements of a, b, c and d, which must be in 0..255, as 4 VL bytes in this order. */
static inline void i_store_bytes(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const vi order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const vi mixed = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));

    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, mixed));
}

#elif defined(KVR_ISA_AVX2)
#define KVR_SIMD 1
#include <immintrin.h>

enum { VL = 8 };
typedef __m256 vf;
typedef __m256i vi;

#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_set(x) _mm256_set1_ps(x)
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_min(a, b) _mm256_min_ps(a, b)
#define v_mul_add(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_minus_mul(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define v_nearest(v) _mm256_cvtps_epi32(v)
#define v_of_int(i) _mm256_cvtepi32_ps(i)
#define v_about_inverse(v) _mm256_rcp_ps(v)
#define v_bits(v) _mm256_castps_si256(v)
#define v_abs(v) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define v_over(a, b) ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define i_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define i_store(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define i_set(x) _mm256_set1_epi32(x)
#define i_bytes(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define i_and(a, b) _mm256_and_si256(a, b)
#define i_xor(a, b) _mm256_xor_si256(a, b)
#define i_and_not(a, b) _mm256_andnot_si256(a, b)
#define i_add(a, b) _mm256_add_epi32(a, b)
#define i_sub(a, b) _mm256_sub_epi32(a, b)
#define i_left(a, n) _mm256_slli_epi32(a, n)
#define i_right(a, n) _mm256_srl_epi32(a, _mm_cvtsi32_si128(n))
#define i_sign(a) _mm256_srai_epi32(a, 31)
#define i_all_signs(a) (_mm256_movemask_ps(_mm256_castsi256_ps(a)) == 0xff)
#define i_pick(mask, a, b) _mm256_blendv_epi8(b, a, mask)
#define i_min(a, b) _mm256_min_epi32(a, b)
#define i_max(a, b) _mm256_max_epi32(a, b)
#define i_min_bits(a, b) _mm256_min_epu32(a, b)
#define i_max_bits(a, b) _mm256_max_epu32(a, b)
#define i_over(a, b) _mm256_cmpgt_epi32(a, b)
#define i_one_more(a, x, y)                                                                        \
    _mm256_sub_epi32(a, _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_GT_OQ)))
#define v_of_bits(i) _mm256_castsi256_ps(i)

typedef __m128i vh;
#define h_nearest(v) _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define h_floats(h) _mm256_cvtph_ps(h)
#define h_ints(h) _mm256_cvtepu16_epi32(h)
#define h_of_ints(i) _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1))
#define h_store(p, h) _mm_storeu_si128((__m128i *)(p), h)

#define w_max(a, b) _mm256_max_epi16(a, b)
#define w_min(a, b) _mm256_min_epi16(a, b)
#define w_max_bits(a, b) _mm256_max_epu16(a, b)
#define w_min_bits(a, b) _mm256_min_epu16(a, b)
#define w_sign(a) _mm256_srai_epi16(a, 15)
#define w_all_signs(a) (((unsigned)_mm256_movemask_epi8(a) & 0xaaaaaaaau) == 0xaaaaaaaau)
#define w_twice(a) _mm256_add_epi16(a, a)
#define w_sub(a, b) _mm256_sub_epi16(a, b)
#define w_set(x) _mm256_set1_epi16(x)
#define w_none_over_bits(a, b)                                                                     \
    (_mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(a, b), b)) == -1)
#define i_none_over(a, b) (_mm256_testz_si256(i_over(a, b), i_over(a, b)) != 0)

static inline void i_store_low(void *p, vi i)
{
    const vi low = _mm256_and_si256(i, _mm256_set1_epi32(0xffff));
    const vi both = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);

    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(both));
}

#define w_halves(a, b) _mm256_blend_epi16(a, b, 0xaa)
#define w_left(a, n) _mm256_slli_epi16(a, n)
#define w_add(a, b) _mm256_add_epi16(a, b)

static inline void i_store_split(void *p, void *q, vi v)
{
    const vi order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4,
                                      5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const vi both = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, order), 0xd8);

    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(both));
    _mm_storeu_si128((__m128i *)q, _mm256_extracti128_si256(both, 1));
}

static inline void i_store_lows(void *p, void *q, vi a, vi b)
{
    i_store_split(p, q, w_halves(a, i_left(b, 16)));
}

typedef __m256d vd;
#define d_set(x) _mm256_set1_pd(x)
#define d_load_floats(p) _mm256_cvtps_pd(_mm_loadu_ps(p))
#define d_store(p, d) _mm256_storeu_pd(p, d)
#define d_add(a, b) _mm256_add_pd(a, b)
#define d_mul_add(a, b, c) _mm256_fmadd_pd(a, b, c)
#define d_load(p) _mm256_loadu_pd(p)

static inline vd d_pairs(vf v)
{
    return d_add(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                 _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}

static inline uint32_t w_bits_over(vi x, vi least)
{
    const vi size = i_and(x, w_set(0x7fff));
    const vi over = _mm256_packs_epi16(_mm256_cmpgt_epi16(size, least), _mm256_setzero_si256());

    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(over, 0xd8));
}

static inline int32_t i_least(vi v)
{
    __m128i m = _mm_min_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

static inline int32_t i_most(vi v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

static inline uint32_t i_most_bits(vi v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static inline uint32_t i_least_bits(vi v)
{
    __m128i m = _mm_min_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_min_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_min_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static inline void i_store_bytes(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const vi mixed = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));

    _mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(mixed, order));
}
#endif

#endif
