/* blocks.c - one dequantizer per block type, which reads bytes in little-endian order. */
#include "harness/files/weights/blocks.h"

#include <string.h>

static float f16_at(const unsigned char *p)
{
    return kvr_f16_to_f32((kvr_f16)(p[0] | p[1] << 8));
}

static void q4_0(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 18, to += 32) {
        const float d = f16_at(b);

        for (int j = 0; j < 16; j++) {
            to[j] = d * (float)((b[2 + j] & 15) - 8);
            to[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
        }
    }
}

static void q4_1(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 20, to += 32) {
        const float d = f16_at(b), m = f16_at(b + 2);

        for (int j = 0; j < 16; j++) {
            to[j] = d * (float)(b[4 + j] & 15) + m;
            to[j + 16] = d * (float)(b[4 + j] >> 4) + m;
        }
    }
}

static void q5_1(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 24, to += 32) {
        const float d = f16_at(b), m = f16_at(b + 2);
        const uint32_t fifth =
            b[4] | (uint32_t)b[5] << 8 | (uint32_t)b[6] << 16 | (uint32_t)b[7] << 24;

        for (int j = 0; j < 16; j++) {
            to[j] = d * (float)((b[8 + j] & 15) | (fifth >> j & 1) << 4) + m;
            to[j + 16] = d * (float)(b[8 + j] >> 4 | (fifth >> (j + 16) & 1) << 4) + m;
        }
    }
}

static void q8_0(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 34, to += 32) {
        const float d = f16_at(b);

        for (int j = 0; j < 32; j++)
            to[j] = d * (float)(signed char)b[2 + j];
    }
}

/* Unpacks the 6-bit scale s and minimum t of sub-block j (0..7) from the 12 bytes of a Q4_K block.
 *
 *     j < 4:   s = low 6 bits of p[j],   t = low 6 bits of p[j + 4]
 *     j >= 4:  s = low 4 bits of p[j + 4],   t = high 4 bits of p[j + 4]
 *              their upper 2 bits are the high 2 bits of p[j - 4] (s) and p[j] (t) */
static void six_bits(const unsigned char *p, int j, int *s, int *t)
{
    if (j < 4) {
        *s = p[j] & 63;
        *t = p[j + 4] & 63;
    } else {
        *s = (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
        *t = p[j + 4] >> 4 | (p[j] >> 6) << 4;
    }
}

static void q4_k(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 144) {
        const float d = f16_at(b), m = f16_at(b + 2);
        const unsigned char *q = b + 16;

        for (int j = 0; j < 8; j++, to += 32) {
            const int high = j & 1;
            float scale, least;
            int s, t;

            six_bits(b + 4, j, &s, &t);
            scale = d * (float)s;
            least = m * (float)t;
            for (int k = 0; k < 32; k++)
                to[k] = scale * (float)(q[k] >> 4 * high & 15) - least;
            if (high)
                q += 32;
        }
    }
}

static void q6_k(const unsigned char *b, int64_t n_blocks, float *to)
{
    for (int64_t i = 0; i < n_blocks; i++, b += 210) {
        const float d = f16_at(b + 208);

        for (int half = 0; half < 2; half++) {
            const unsigned char *low = b + 64 * half, *high = b + 128 + 32 * half;
            const signed char *s = (const signed char *)b + 192 + 8 * half;

            /* Four runs of 32 elements share 64 bytes of low bits and 32 bytes of high bits. */
            for (int j = 0; j < 128; j++) {
                const int run = j / 32, k = j % 32;
                const int q = (low[k + 32 * (run & 1)] >> 4 * (run >> 1) & 15) |
                              (high[k] >> 2 * run & 3) << 4;

                *to++ = d * (float)s[j / 16] * (float)(q - 32);
            }
        }
    }
}

#define PLAIN(number, name, dtype)
#define NAMED(number, name)
#define BLOCK(number, name, n, n_bytes, to_f32)                                                    \
    static const struct kvr_quant block_##to_f32 = { name, n, n_bytes, to_f32 };
#include "harness/files/weights/blocks.def"
#undef PLAIN
#undef NAMED
#undef BLOCK

static const struct kvr_gguf_type types[] = {
#define PLAIN(number, name, dtype) { number, name, dtype, NULL },
#define NAMED(number, name) { number, name, KVR_N_DTYPES, NULL },
#define BLOCK(number, name, n, n_bytes, to_f32) { number, name, KVR_N_DTYPES, &block_##to_f32 },
#include "harness/files/weights/blocks.def"
#undef PLAIN
#undef NAMED
#undef BLOCK
};

const struct kvr_gguf_type *kvr_gguf_type_find(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const struct kvr_quant *kvr_quant_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].blocks && strcmp(types[i].name, name) == 0)
            return types[i].blocks;
    return NULL;
}
