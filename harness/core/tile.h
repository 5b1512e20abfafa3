/* tile.h - AMX tile instructions, and their equivalents in plain C. Only *_tile.c, *_dot.c and
 * tests include tile.h.
 *
 *     struct kvr_tiles t;
 *
 *     KVR_TILE_CONFIGURE(&t, rows_a, rows_b);    shapes of tiles 0 to 7, below
 *     KVR_TILE_ZERO(&t, 0);
 *     KVR_TILE_LOAD(&t, 4, a, stride);           stride in bytes
 *     KVR_TILE_LOAD(&t, 6, b, 64);
 *     KVR_TILE_BF16(&t, 0, 4, 6);                tile 0 += tile 4 x tile 6
 *     KVR_TILE_STORE(&t, 0, c, stride);
 *     KVR_TILE_RELEASE(&t);                      before the function returns
 *
 * A tile is up to 16 rows of 64 bytes. Without the macro KVR_ISA_AMX_BF16, the operations are plain
 * C, which is the reference implementation on any machine. The C code rounds as Intel's manual
 * specifies for TDPBF16PS: it replaces denormal inputs and results by zero. It sums the products at
 * even and at odd positions of a row separately, and adds these two sums at the end. Tile numbers
 * in a call must be literals. */
#ifndef KVR_CORE_TILE_H
#define KVR_CORE_TILE_H

#include <stdint.h>
#include <string.h>

enum { KVR_TILE_ROWS = 16, KVR_TILE_BYTES = 64 };

/* LDTILECFG's operand. */
struct kvr_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* In a product A B, tiles 4 and 5 contain two blocks of at most 16 rows of A. The first block has
 * rows_a rows, the second rows_b. Tiles 6 and 7 contain two blocks of 16 columns of B. Tiles 0 to 3
 * are the accumulators: tile 0 += tile 4 x tile 6, tile 1 += tile 4 x tile 7,
 * tile 2 += tile 5 x tile 6, and tile 3 += tile 5 x tile 7. */
static inline struct kvr_tile_config kvr_tile_shapes(int rows_a, int rows_b)
{
    struct kvr_tile_config c;

    memset(&c, 0, sizeof c);
    c.palette = 1;

    for (int i = 0; i < 8; i++) {
        const int second = i == 2 || i == 3 || i == 5;

        c.row_bytes[i] = KVR_TILE_BYTES;
        c.rows[i] = (uint8_t)(i >= 6 ? KVR_TILE_ROWS : second && rows_b ? rows_b : rows_a);
    }
    return c;
}

#if KVR_ISA_AMX_BF16
struct kvr_tiles {
    struct kvr_tile_config config;
};

/* The operations are inline assembly: GCC 12's intrinsics do not declare that they read memory, so
 * the compiler could move or delete stores to memory from which a tile is loaded. */
#define KVR_TILE_CONFIGURE(t, rows_a, rows_b)                                                      \
    do {                                                                                           \
        (t)->config = kvr_tile_shapes(rows_a, rows_b);                                             \
        __asm__ volatile("ldtilecfg %0" : : "m"((t)->config));                                     \
    } while (0)
#define KVR_TILE_RELEASE(t) __asm__ volatile("tilerelease")
#define KVR_TILE_ZERO(t, to) __asm__ volatile("tilezero %%tmm" #to:)
#define KVR_TILE_LOAD(t, to, from, stride)                                                         \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #to                                              \
                     :                                                                             \
                     : "r"(from), "r"((int64_t)(stride))                                           \
                     : "memory")
#define KVR_TILE_STORE(t, from, to, stride)                                                        \
    __asm__ volatile("tilestored %%tmm" #from ", (%0,%1,1)"                                        \
                     :                                                                             \
                     : "r"(to), "r"((int64_t)(stride))                                             \
                     : "memory")
#define KVR_TILE_OP_(op, to, a, b) __asm__ volatile(op " %%tmm" #b ", %%tmm" #a ", %%tmm" #to:)
#define KVR_TILE_BF16(t, to, a, b) KVR_TILE_OP_("tdpbf16ps", to, a, b)
#define KVR_TILE_U8_I8(t, to, a, b) KVR_TILE_OP_("tdpbusd", to, a, b)
#define KVR_TILE_I8_U8(t, to, a, b) KVR_TILE_OP_("tdpbsud", to, a, b)
#else
struct kvr_tiles {
    struct kvr_tile_config config;
    uint32_t of[8][KVR_TILE_ROWS][KVR_TILE_BYTES / 4];
};

static inline void kvr_tile_load(struct kvr_tiles *t, int to, const void *from, int64_t stride)
{
    memset(t->of[to], 0, sizeof t->of[to]);
    for (int r = 0; r < t->config.rows[to]; r++)
        memcpy(t->of[to][r], (const char *)from + r * stride, t->config.row_bytes[to]);
}

static inline void kvr_tile_store(const struct kvr_tiles *t, int from, void *to, int64_t stride)
{
    for (int r = 0; r < t->config.rows[from]; r++)
        memcpy((char *)to + r * stride, t->of[from][r], t->config.row_bytes[from]);
}

static inline float kvr_tile_float(uint32_t bits)
{
    float x;

    if (!(bits & 0x7f800000u))
        bits &= 0x80000000u; /* denormals are zero */
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t kvr_tile_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7f800000u ? bits : bits & 0x80000000u;
}

static inline void kvr_tile_bf16(struct kvr_tiles *t, int to, int a, int b)
{
    for (int m = 0; m < t->config.rows[to]; m++)
        for (int n = 0; n < KVR_TILE_BYTES / 4; n++) {
            float part[2] = { 0, 0 };

            for (int k = 0; k < t->config.rows[b]; k++) {
                const uint32_t x = t->of[a][m][k], y = t->of[b][k][n];

                /* The product of two BF16 numbers is exact in F32. Only the addition of the product
                 * to part[0] or part[1] rounds, as in the instruction TDPBF16PS. */
                part[0] += kvr_tile_float(x << 16) * kvr_tile_float(y << 16);
                part[1] += kvr_tile_float(x & 0xffff0000u) * kvr_tile_float(y & 0xffff0000u);
                part[0] = kvr_tile_float(kvr_tile_bits(part[0]));
                part[1] = kvr_tile_float(kvr_tile_bits(part[1]));
            }
            part[0] = kvr_tile_float(kvr_tile_bits(part[0] + part[1]));
            t->of[to][m][n] = kvr_tile_bits(kvr_tile_float(t->of[to][m][n]) + part[0]);
        }
}

/* Adds tile a x tile b to tile `to`. The elements of tiles a and b are 8-bit integers: a is signed
 * and b unsigned if a_signed is nonzero, otherwise a is unsigned and b signed. The int32 elements
 * of tile `to` wrap around on overflow. */
static inline void kvr_tile_bytes(struct kvr_tiles *t, int to, int a, int b, int a_signed)
{
    for (int m = 0; m < t->config.rows[to]; m++)
        for (int n = 0; n < KVR_TILE_BYTES / 4; n++)
            for (int k = 0; k < t->config.rows[b]; k++)
                for (int i = 0; i < 32; i += 8) {
                    const uint8_t x = (uint8_t)(t->of[a][m][k] >> i);
                    const uint8_t y = (uint8_t)(t->of[b][k][n] >> i);
                    const int product = a_signed ? (int8_t)x * y : x * (int8_t)y;

                    t->of[to][m][n] += (uint32_t)product;
                }
}

#define KVR_TILE_CONFIGURE(t, rows_a, rows_b) ((t)->config = kvr_tile_shapes(rows_a, rows_b))
#define KVR_TILE_RELEASE(t) memset((t), 0, sizeof *(t))
#define KVR_TILE_ZERO(t, to) memset((t)->of[to], 0, sizeof(t)->of[to])
#define KVR_TILE_LOAD(t, to, from, stride) kvr_tile_load(t, to, from, stride)
#define KVR_TILE_STORE(t, from, to, stride) kvr_tile_store(t, from, to, stride)
#define KVR_TILE_BF16(t, to, a, b) kvr_tile_bf16(t, to, a, b)
#define KVR_TILE_U8_I8(t, to, a, b) kvr_tile_bytes(t, to, a, b, 0)
#define KVR_TILE_I8_U8(t, to, a, b) kvr_tile_bytes(t, to, a, b, 1)
#endif

#endif
