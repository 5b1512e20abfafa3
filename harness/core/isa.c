/* isa.c - detects the features of the CPU, and selects the variant of the hot loops. */
#include "harness/core/isa.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "harness/core/join.h"

static const char *const names[KVR_N_ISA] = { "portable", "avx2",     "avxvnni",  "avx512",
                                              "vnni",     "amx_bf16", "amx_int8", "neon" };

/* `chosen` is the chosen variant plus one, or 0 before the choice. `by_name` is true if the user
 * named the variant. */
static atomic_int chosen;
static atomic_bool by_name;

#if defined(__x86_64__)
/* Returns XCR0, whose bits tell which registers the operating system saves. */
static uint64_t saved_registers(void)
{
    uint32_t low, high;

    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

/* Bit n is set if variant n of the hot loops is compiled in. */
enum {
    COMPILED = 1 << KVR_ISA_OF_PORTABLE | 1 << KVR_ISA_OF_AVX2 | 1 << KVR_ISA_OF_AVXVNNI |
               1 << KVR_ISA_OF_AVX512 | 1 << KVR_ISA_OF_VNNI | 1 << KVR_ISA_OF_AMX_BF16 |
               1 << KVR_ISA_OF_AMX_INT8
};

static char refusal[160]; /* why the kernel refuses AMX; detect() writes it before cpu_can()
                           * publishes the mask to other threads */

/* Requests permission to use AMX tiles, which Linux grants to each process on request
 * (Documentation/arch/x86/xstate.rst). */
static bool tiles_granted(uint64_t saved)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */

    if (!(saved >> TILE_DATA & 1)) {
        snprintf(
            refusal, sizeof refusal,
            "the operating system or hypervisor has not enabled the AMX tile registers (XCR0 is "
            "%#llx)",
            (unsigned long long)saved);
        return false;
    }
    if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0)
        return true;
    snprintf(refusal, sizeof refusal, "Linux denies AMX: arch_prctl(ARCH_REQ_XCOMP_PERM, %d): %s",
             TILE_DATA,
             errno == ENOSPC
                 ? "an alternate signal stack (sigaltstack) is too small for the AMX registers"
                 : strerror(errno));
    return false;
}

static unsigned detect(void)
{
    const uint64_t ymm = 0x6, zmm = 0xe6;
    uint32_t a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0, b71, c71, d71, a1, b1, c1 = 0, d1;
    unsigned can = 1u << KVR_ISA_OF_PORTABLE;
    uint64_t saved;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, bit_OSXSAVE))
        return can;
    saved = saved_registers();
    __get_cpuid_count(7, 0, &a, &b7, &c7, &d7);
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
    __get_cpuid(0x80000001, &a1, &b1, &c1, &d1);
    if ((saved & ymm) != ymm || !all(c, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE) ||
        !all(b7, bit_AVX2 | bit_BMI | bit_BMI2) || !all(c1, bit_LZCNT))
        return can;
    can |= 1u << KVR_ISA_OF_AVX2;
    if (all(a71, 1u << 4)) /* AVX-VNNI */
        can |= 1u << KVR_ISA_OF_AVXVNNI;
    if ((saved & zmm) == zmm &&
        all(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL)) {
        can |= 1u << KVR_ISA_OF_AVX512;
        if (all(c7, 1u << 11)) /* AVX512_VNNI */
            can |= 1u << KVR_ISA_OF_VNNI;
    }
    /* AMX-BF16, AMX-TILE, AVX512_BF16 */
    if (can >> KVR_ISA_OF_VNNI & 1 && all(d7, 1u << 22 | 1u << 24) && all(a71, 1u << 5) &&
        tiles_granted(saved)) {
        can |= 1u << KVR_ISA_OF_AMX_BF16;
        if (all(d7, 1u << 25)) /* AMX-INT8 */
            can |= 1u << KVR_ISA_OF_AMX_INT8;
    }
    return can;
}

/* Returns a mask whose bit n is set if the CPU can run variant n. The first call detects the mask.
 * If two threads make the first call concurrently, both detect the same mask. */
static unsigned cpu_can(void)
{
    static atomic_uint can;
    unsigned bits = atomic_load(&can);

    if (!bits) {
        bits = detect();
        atomic_store(&can, bits);
    }
    return bits;
}
#elif defined(__aarch64__)
enum { COMPILED = 1 << KVR_ISA_OF_PORTABLE | 1 << KVR_ISA_OF_NEON };

static unsigned cpu_can(void)
{
    unsigned can = 1u << KVR_ISA_OF_PORTABLE;

    if (getauxval(AT_HWCAP) & (1ul << 20)) /* HWCAP_ASIMDDP: 8-bit dot products */
        can |= 1u << KVR_ISA_OF_NEON;
    return can;
}
#else
enum { COMPILED = 1 << KVR_ISA_OF_PORTABLE };

static unsigned cpu_can(void)
{
    return 1u << KVR_ISA_OF_PORTABLE;
}
#endif

const char *kvr_isa_refused(void)
{
#if defined(__x86_64__)
    cpu_can();
    return refusal[0] ? refusal : NULL;
#else
    return NULL;
#endif
}

bool kvr_isa_compiled(enum kvr_isa isa)
{
    return (unsigned)isa < KVR_N_ISA && ((unsigned)COMPILED >> isa & 1u);
}

bool kvr_isa_usable(enum kvr_isa isa)
{
    return (unsigned)isa < KVR_N_ISA && (cpu_can() >> isa & 1u);
}

const char *kvr_isa_name(enum kvr_isa isa)
{
    return (unsigned)isa < KVR_N_ISA ? names[isa] : "?";
}

const char *kvr_isa_names(char *buf, size_t n, bool (*which)(enum kvr_isa isa))
{
    buf[0] = 0;
    for (int i = 0; i < KVR_N_ISA; i++)
        if (which((enum kvr_isa)i))
            kvr_join(buf, n, names[i]);
    return buf;
}

/* Returns the last variant that the CPU and this build support. Later variants use more capable
 * instruction sets. */
static enum kvr_isa best(void)
{
    enum kvr_isa isa = KVR_ISA_OF_PORTABLE;

    for (int i = 0; i < KVR_N_ISA; i++)
        if (kvr_isa_usable((enum kvr_isa)i))
            isa = (enum kvr_isa)i;
    return isa;
}

/* Returns the variant of this name, or KVR_N_ISA if there is none. */
static enum kvr_isa named(const char *name)
{
    int i = 0;

    while (i < KVR_N_ISA && strcmp(names[i], name) != 0)
        i++;
    return (enum kvr_isa)i;
}

static void choose(enum kvr_isa isa, bool is_named)
{
    atomic_store(&by_name, is_named);
    atomic_store(&chosen, (int)isa + 1);
}

enum kvr_isa kvr_isa(void)
{
    int c = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (!c) {
        const char *wish = getenv("KVREEL_CPU");
        const bool granted = wish && *wish && kvr_isa_usable(named(wish));

        choose(granted ? named(wish) : best(), granted);
        c = atomic_load(&chosen);
    }
    return (enum kvr_isa)(c - 1);
}

bool kvr_isa_has_tiles(void)
{
    return kvr_isa() == KVR_ISA_OF_AMX_BF16 || kvr_isa() == KVR_ISA_OF_AMX_INT8;
}

bool kvr_isa_forced(void)
{
    kvr_isa();
    return atomic_load(&by_name);
}

enum kvr_status kvr_isa_force(const char *name)
{
    const char *from = name ? "--cpu" : "KVREEL_CPU";
    char usable[128];

    if (!name)
        name = getenv("KVREEL_CPU");
    if (!name || !*name) {
        choose(best(), false);
        return KVR_OK;
    }
    if (kvr_isa_usable(named(name))) {
        choose(named(name), true);
        return KVR_OK;
    }
    if (kvr_isa_refused() && strncmp(name, "amx_", 4) == 0 && named(name) != KVR_N_ISA)
        return kvr_fail(
            KVR_EINVAL, "%s: kernel variant '%s' is refused: %s; variants that can run: %s", from,
            name, kvr_isa_refused(), kvr_isa_names(usable, sizeof usable, kvr_isa_usable));
    return kvr_fail(KVR_EINVAL, "%s: '%s' %s; this CPU supports: %s", from, name,
                    named(name) == KVR_N_ISA ? "is not a kernel variant"
                    : kvr_isa_compiled(named(name))
                        ? "is a kernel variant that needs instructions that this CPU does not have"
                        : "is a kernel variant for another CPU architecture",
                    kvr_isa_names(usable, sizeof usable, kvr_isa_usable));
}
