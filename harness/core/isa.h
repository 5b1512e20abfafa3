/* isa.h - selects the CPU instruction set of the inner loops once, at start-up.
 *
 *     KVR_TRY(kvr_isa_force(name));       NULL: KVREEL_CPU, else the best this CPU supports
 *     kvr_fwht_kernels()->rows(x, n, d);  the table of the selected variant
 *
 * Each *_isa.c file is compiled once per instruction set: portable, avx2 and avx512 (on ARM:
 * portable and neon). A *_dot.c file is compiled for avxvnni, vnni and amx_int8 as well. A *_tile.c
 * file is compiled for portable and amx_bf16 (tile.h). The object code for one instruction set is
 * called a variant.
 *
 * Each variant of a file defines one constant table of function pointers and no other external
 * symbol. A table of type struct kvr_x is defined as `const struct kvr_x KVR_ISA_NAME(kvr_x)`, so
 * its name ends in the variant's name. The header that declares struct kvr_x also calls the macro
 * KVR_ISA_TABLES(struct kvr_x, kvr_x). This macro defines the function kvr_x(), which returns the
 * table of the selected variant.
 *
 * For each variant the Makefile defines the macro KVR_ISA as the variant's name, and one macro per
 * instruction set extension that the variant uses: KVR_ISA_AVX2, KVR_ISA_AVX512, KVR_ISA_VNNI,
 * KVR_ISA_AVXVNNI, KVR_ISA_AMX_BF16, KVR_ISA_AMX_INT8, KVR_ISA_NEON. KVR_ISA_AVX2 is defined for
 * AVX-512 variants too.
 *
 * Stored data (codes, scales, masks) is bit-identical in every variant. Floating-point dot products
 * may differ in the last bits, since each variant has its own summation order. */
#ifndef KVR_CORE_ISA_H
#define KVR_CORE_ISA_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Variants of the CPU kernels, named after the instruction set that each variant uses. */
enum kvr_isa {
    KVR_ISA_OF_PORTABLE, /* baseline of the build, x86-64-v2 or ARMv8-A */
    KVR_ISA_OF_AVX2,     /* AVX2, FMA, F16C: x86-64-v3 */
    KVR_ISA_OF_AVXVNNI,  /* AVX2 and AVX-VNNI: 8-bit dot products in 256-bit registers */
    KVR_ISA_OF_AVX512,   /* AVX-512 F, BW, CD, DQ, VL: x86-64-v4 */
    KVR_ISA_OF_VNNI,     /* AVX-512 and AVX512-VNNI: 8-bit dot products in 512-bit registers */
    KVR_ISA_OF_AMX_BF16, /* all instructions of KVR_ISA_OF_VNNI; in addition AVX512-BF16, and AMX
                          * tiles for BF16 products */
    KVR_ISA_OF_AMX_INT8, /* all instructions of KVR_ISA_OF_AMX_BF16; in addition AMX tiles for int8
                          * products */
    KVR_ISA_OF_NEON,     /* ARM: Advanced SIMD with the 8-bit dot product extension */
    KVR_N_ISA
};

/* Returns the selected variant of the CPU kernels. If none is selected yet, the function selects
 * the variant that the environment variable KVREEL_CPU names, or else the best variant that the CPU
 * supports. If KVREEL_CPU names an unusable variant, this function ignores the name, while
 * kvr_isa_force(NULL) fails. */
enum kvr_isa kvr_isa(void);

/* Whether the selected variant uses AMX tiles (tile.h). */
bool kvr_isa_has_tiles(void);

/* Selects a variant of the CPU kernels by name. If `name` is NULL, selects the variant that the
 * environment variable KVREEL_CPU names, or else the best usable variant. If the named variant is
 * unknown or unusable, fails with KVR_EINVAL and a message with the names of the usable variants.
 * The function must not run while other threads compute. */
enum kvr_status kvr_isa_force(const char *name);

/* Whether this program contains variant `isa` of the CPU kernels. */
bool kvr_isa_compiled(enum kvr_isa isa);
/* Whether this program contains variant `isa` of the CPU kernels and this CPU can run it. */
bool kvr_isa_usable(enum kvr_isa isa);
/* Why the operating system refuses to let this process use AMX tiles, or NULL if it does not refuse
 * or the CPU has no tiles. */
const char *kvr_isa_refused(void);
/* Writes a list of variants of the CPU kernels, such as "portable, avx2", to buf [n]; returns buf.
 * The list has all variants for which `which`, either kvr_isa_compiled or kvr_isa_usable, returns
 * true. */
const char *kvr_isa_names(char *buf, size_t n, bool (*which)(enum kvr_isa isa));
/* Returns true if a user or caller named the selected variant, in KVREEL_CPU or as argument of
 * kvr_isa_force(). Returns false if the variant is the best usable one by default. */
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
