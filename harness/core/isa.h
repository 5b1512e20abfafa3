/* isa.h - the instruction set of the hot loops, selected once at start-up.
 *
 *     KVR_TRY(kvr_isa_force(name));       NULL: KVREEL_CPU, else the best this CPU supports
 *     kvr_fwht_kernels()->rows(x, n, d);  the table of the selected variant
 *
 * A file *_isa.c is compiled once each for portable, avx2 and avx512 (portable and neon on ARM); a
 * file *_dot.c also for avxvnni, vnni and amx_int8; a file *_tile.c for portable and amx_bf16
 * (tile.h). Each copy defines one constant function table, `const
 * struct kvr_x KVR_ISA_NAME(kvr_x)`, and no other external symbol. The header declares
 * KVR_ISA_TABLES(struct kvr_x, kvr_x), which defines the function kvr_x() that returns the selected
 * table. The Makefile sets KVR_ISA to the variant's name and KVR_ISA_AVX2, KVR_ISA_AVX512,
 * KVR_ISA_VNNI, KVR_ISA_AVXVNNI, KVR_ISA_AMX_BF16, KVR_ISA_AMX_INT8 or KVR_ISA_NEON to 1 as
 * applicable; AVX-512 copies also have KVR_ISA_AVX2.
 *
 * Stored data (codes, scales, masks) is bit-identical in every variant. Sums of products may differ
 * in the last bits, since each variant has its own summation order. */
#ifndef KVR_CORE_ISA_H
#define KVR_CORE_ISA_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_isa {
    KVR_ISA_OF_PORTABLE, /* baseline of the build: x86-64-v2, ARMv8-A */
    KVR_ISA_OF_AVX2,     /* AVX2, FMA, F16C: x86-64-v3 */
    KVR_ISA_OF_AVXVNNI,  /* AVX2 and 8-bit dot products in 256-bit registers */
    KVR_ISA_OF_AVX512,   /* AVX-512 F, BW, CD, DQ, VL: x86-64-v4 */
    KVR_ISA_OF_VNNI,     /* AVX512 and 8-bit dot products in 512-bit registers */
    KVR_ISA_OF_AMX_BF16, /* VNNI, AVX512-BF16 and BF16 products of AMX tiles */
    KVR_ISA_OF_AMX_INT8, /* AMX_BF16 and 8-bit products of AMX tiles */
    KVR_ISA_OF_NEON,     /* ARM: Advanced SIMD intrinsics with 8-bit dot products */
    KVR_N_ISA
};

/* The selected variant. The first call selects the variant by KVREEL_CPU or by the CPU's features.
 * This function ignores an unusable name in KVREEL_CPU; kvr_isa_force(NULL) refuses it. */
enum kvr_isa kvr_isa(void);

/* Whether the selected variant has AMX tiles (tile.h). */
bool kvr_isa_has_tiles(void);

/* Selects a variant by name; NULL: KVREEL_CPU, else the best. KVR_EINVAL lists the usable names.
 * Must not run while other threads compute. */
enum kvr_status kvr_isa_force(const char *name);

/* Whether the variant is compiled in, and whether this CPU can run it. */
bool kvr_isa_compiled(enum kvr_isa isa);
bool kvr_isa_usable(enum kvr_isa isa);
/* Why the operating system refuses the use of the CPU's AMX tiles; NULL: it does not, or the CPU
 * has no tiles. */
const char *kvr_isa_refused(void);
/* "portable, avx2": the variants that satisfy `which`, kvr_isa_compiled or kvr_isa_usable. Returns
 * buf [n]. */
const char *kvr_isa_names(char *buf, size_t n, bool (*which)(enum kvr_isa isa));
/* Whether the variant was selected by name rather than by CPU features. */
bool kvr_isa_forced(void);
const char *kvr_isa_name(enum kvr_isa isa); /* "portable", "avx2", ... */

#define KVR_ISA_CAT_(a, b) a##_##b
#define KVR_ISA_CAT(a, b) KVR_ISA_CAT_(a, b)
#define KVR_ISA_NAME(name) KVR_ISA_CAT(name, KVR_ISA)

#define KVR_ISA_LOOK_UP_(type, name, ...)                                                          \
    static inline const type *name(void)                                                           \
    {                                                                                              \
        static const type *const of[KVR_N_ISA] = { __VA_ARGS__ };                                  \
                                                                                                   \
        return of[kvr_isa()];                                                                      \
    }

#if defined(__x86_64__)
#define KVR_ISA_TABLES(type, name)                                                                 \
    extern const type name##_portable, name##_avx2, name##_avx512;                                 \
    KVR_ISA_LOOK_UP_(type, name, &name##_portable, &name##_avx2, &name##_avx2, &name##_avx512,     \
                     &name##_avx512, &name##_avx512, &name##_avx512)
#define KVR_ISA_DOT_TABLES(type, name)                                                             \
    extern const type name##_portable, name##_avx2, name##_avxvnni, name##_avx512, name##_vnni,    \
        name##_amx_int8;                                                                           \
    KVR_ISA_LOOK_UP_(type, name, &name##_portable, &name##_avx2, &name##_avxvnni, &name##_avx512,  \
                     &name##_vnni, &name##_vnni, &name##_amx_int8)
#define KVR_ISA_TILE_TABLES(type, name)                                                            \
    extern const type name##_portable, name##_amx_bf16;                                            \
    KVR_ISA_LOOK_UP_(type, name, &name##_portable, &name##_portable, &name##_portable,             \
                     &name##_portable, &name##_portable, &name##_amx_bf16, &name##_amx_bf16)
#elif defined(__aarch64__)
#define KVR_ISA_TABLES(type, name)                                                                 \
    extern const type name##_portable, name##_neon;                                                \
    KVR_ISA_LOOK_UP_(                                                                              \
        type, name, [KVR_ISA_OF_PORTABLE] = &name##_portable, [KVR_ISA_OF_NEON] = &name##_neon)
#define KVR_ISA_DOT_TABLES KVR_ISA_TABLES
#define KVR_ISA_TILE_TABLES(type, name)                                                            \
    extern const type name##_portable;                                                             \
    KVR_ISA_LOOK_UP_(                                                                              \
        type,                                                                                      \
        name, [KVR_ISA_OF_PORTABLE] = &name##_portable, [KVR_ISA_OF_NEON] = &name##_portable)
#else
#define KVR_ISA_TABLES(type, name)                                                                 \
    extern const type name##_portable;                                                             \
    KVR_ISA_LOOK_UP_(type, name, &name##_portable)
#define KVR_ISA_DOT_TABLES KVR_ISA_TABLES
#define KVR_ISA_TILE_TABLES KVR_ISA_TABLES
#endif

#ifdef __cplusplus
}
#endif
#endif
