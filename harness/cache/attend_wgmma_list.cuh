/* attend_wgmma_list.cuh - definitions for attend_wgmma.cu: the storage format FORM of cached keys
 * and values, the list of spans (runs of cached tokens in one format), the shared-memory layout and
 * the mbarriers. */
#ifndef KVR_CACHE_ATTEND_WGMMA_LIST_CUH
#define KVR_CACHE_ATTEND_WGMMA_LIST_CUH

#include "harness/cache/attend_part.cuh"
#include "harness/cache/attend_wgmma.h"
#include "harness/device/hopper.cuh"
#include "harness/device/kernel.cuh"

enum {
    CONSUMERS = 2,
    THREADS = (1 + CONSUMERS) * KVR_WARPGROUP,
    ROWS = 64,
    QUERIES = PART_QUERIES,
    KEYS = KVR_ATTEND_LIST_KEYS,
    STAGES = 2,
    MAX_SPANS = KVR_ATTEND_LIST_SPANS,
    OCTET = 8 * 128, /* size in bytes of a swizzle atom, which has 8 rows of 128 bytes */
    Q_PANEL = ROWS * 128,
    TILE_PANEL = KEYS * 128,
};
static_assert(QUERIES == CONSUMERS * ROWS, "a group has ROWS queries");

/* The template parameter FORM describes a span, which is a run of cached tokens in one format. FORM
 * has bit fields for the head dimension (64 or 128), the bits per code (0 for BF16) and the scheme:
 * 0, TOKEN_VALUES or CHAIN. With scheme 0 (RTN), K and V have symmetric grids with one scale per
 * channel and token group. With TOKEN_VALUES (KIVI), K has one scale per channel and token group, V
 * has one scale per token, and both grids may be asymmetric, with a zero point or a minimum per
 * scale. With CHAIN (PRQ), K and V have the grids of RTN plus a 4-bit grid that quantizes the
 * residual. */
enum { TOKEN_VALUES = 8, BITS = 7, CHAIN = 16, MORE = 4 };

template <int FORM> struct form {
    enum {
        D = FORM & 192,
        F = FORM & BITS,
        CODED = F != 0,
        MIXED = (FORM & TOKEN_VALUES) != 0,
        CHAINED = (FORM & CHAIN) != 0,
        PANELS = D / KVR_TILE_COLUMNS,
        /* The constants AT_... are byte offsets in shared memory. Shared memory contains the Q
         * tiles of the consumer groups, the stages of K, the stages of V and the mbarriers, in this
         * order. Q, K and V are stored as panels of 64 columns. */
        TILE_BYTES = PANELS * TILE_PANEL,
        AT_KEYS = CONSUMERS * PANELS * Q_PANEL,
        AT_VALUES = AT_KEYS + STAGES * TILE_BYTES,
        AT_BARRIERS = AT_VALUES + STAGES * TILE_BYTES,
        N_SHARED = AT_BARRIERS + 4 * STAGES * 8,
        /* Registers per thread after setmaxnreg. For quantized spans the producer needs more
         * registers for dequantization, at the expense of the consumers. */
        OF_PRODUCER = CODED ? 120 : 24,
        OF_CONSUMER = CODED ? 192 : 240,
    };
    static_assert(kvr_registers_fit(THREADS, OF_PRODUCER, OF_CONSUMER), "the launch's registers");
};

/* Indices of named barriers. A consumer warpgroup waits on its PING_PONG barrier for its turn to
 * issue GEMMs. The group's GROUP_SYNC barrier synchronizes the threads of the group. */
enum { PING_PONG = 1, GROUP_SYNC = PING_PONG + CONSUMERS };

/* Tokens quantized with one grid, in global memory: codes and FP16 scales s. An asymmetric grid
 * also has a zero point z or a minimum m per scale, and dequantizes a code to (code - z) s or to
 * code s + m. */
struct coded_rows {
    const uint8_t *codes;
    const kvr_f16 *scales;
    int64_t n_groups;
    int n_tok, t0, shift;
    unsigned zero, minimum, middle;
    bool asym;
};

union rows {
    struct kvr_tensor_map map;
    struct coded_rows coded[2]; /* with scheme CHAIN, coded[1] quantizes the residual of coded[0] */
};

/* Kernel parameter with the spans (runs of cached tokens in one format) of a launch. The driver may
 * be older than the runtime (docs/cuda.md), and a driver before CUDA 12.1 limits the parameters of
 * a kernel to 4096 bytes. */
struct span_list {
    union rows of[2][MAX_SPANS]; /* of[0] describes K, of[1] describes V */
    int n[MAX_SPANS];
    float log_m[MAX_SPANS];
    unsigned coded; /* bit i is set if span i is quantized */
    float scale;
    unsigned one; /* bit pattern of 1.0f, which the compiler cannot fold because it is a run-time
                   * parameter */
    struct cut cut;
};
static_assert(sizeof(struct span_list) + 256 <= 4096, "arguments of a kernel");

/* Position of a tile: the index of its span, and the tile's first token relative to the span. */
struct tile_position {
    int span, t;
};

static __device__ __forceinline__ struct tile_position position_of(const struct span_list &l,
                                                                   int tile)
{
    struct tile_position s = { 0, 0 };

#pragma unroll 1
    for (;; s.span++) {
        const int n = (l.n[s.span] + KEYS - 1) / KEYS;

        if (tile < n)
            break;
        tile -= n;
    }
    s.t = tile * KEYS;
    return s;
}

/* Advances the position `s` to the next tile. */
static __device__ __forceinline__ void step(const struct span_list &l, struct tile_position &s)
{
    s.t += KEYS;
    if (s.t >= l.n[s.span]) {
        s.t = 0;
        s.span++;
    }
}

/* Arrays of STAGES mbarriers, with one mbarrier per pipeline stage. */
struct barriers {
    kvr_shared<uint64_t> full_k, full_v, empty_k, empty_v;
};

template <int FORM>
static __device__ __forceinline__ struct barriers barriers_at(kvr_shared<uint8_t> shared)
{
    const kvr_shared<uint64_t> b = kvr_as<uint64_t>(shared + form<FORM>::AT_BARRIERS);

    return { b, b + STAGES, b + 2 * STAGES, b + 3 * STAGES };
}

#endif
