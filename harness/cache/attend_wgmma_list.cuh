/* attend_wgmma_list.cuh - template parameter FORM, span list, shared-memory layout and mbarriers of
 * attend_wgmma.cu. */
#ifndef KVR_CACHE_ATTEND_WGMMA_LIST_CUH
#define KVR_CACHE_ATTEND_WGMMA_LIST_CUH

#include "harness/cache/attend_part.cuh"
#include "harness/cache/attend_wgmma.h"
#include "harness/device/hopper.cuh"
#include "harness/device/kernel.cuh"

enum {
    CONSUMERS = 2,
    THREADS = (1 + CONSUMERS) * KVR_WARP_GROUP,
    ROWS = 64,
    QUERIES = PART_QUERIES,
    KEYS = KVR_ATTEND_LIST_KEYS,
    STAGES = 2,
    MAX_SPANS = KVR_ATTEND_LIST_SPANS,
    OCTET = 8 * 128, /* bytes of 8 rows of a panel, which form one swizzle atom */
    Q_PANEL = ROWS * 128,
    TILE_PANEL = KEYS * 128,
};
static_assert(QUERIES == CONSUMERS * ROWS, "a group has ROWS queries");

/* The template parameter FORM is the head dimension plus, for coded spans, the bits per code and one
 * of these schemes:
 *     0             RTN: symmetric grids; K and V have a scale per channel and token group
 *     TOKEN_VALUES  KIVI: K has a scale per channel and token group, V has a scale per token; both
 *                   may have zero points
 *     CHAIN         PRQ: the grids of RTN, and a second 4-bit grid that codes the residual */
enum { TOKEN_VALUES = 8, BITS = 7, CHAIN = 16, MORE = 4 };

template <int FORM> struct form {
    enum {
        D = FORM & 192,
        F = FORM & BITS,
        CODED = F != 0,
        MIXED = (FORM & TOKEN_VALUES) != 0,
        CHAINED = (FORM & CHAIN) != 0,
        PANELS = D / KVR_TILE_COLUMNS,
        /* Byte offsets in shared memory. The order is: Q of each consumer group, the stages of K,
         * the stages of V, the mbarriers. Q, K and V consist of panels of 64 columns. */
        TILE_BYTES = PANELS * TILE_PANEL,
        AT_KEYS = CONSUMERS * PANELS * Q_PANEL,
        AT_VALUES = AT_KEYS + STAGES * TILE_BYTES,
        AT_BARRIERS = AT_VALUES + STAGES * TILE_BYTES,
        N_SHARED = AT_BARRIERS + 4 * STAGES * 8,
        /* Registers per thread after setmaxnreg. The producer of coded spans needs more registers
         * for dequantization, and the consumers release them. */
        OF_PRODUCER = CODED ? 120 : 24,
        OF_CONSUMER = CODED ? 192 : 240,
    };
    static_assert(kvr_registers_fit(THREADS, OF_PRODUCER, OF_CONSUMER), "the launch's registers");
};

/* Named barriers. There are two per consumer group: one to alternate with the other group
 * (ping-pong), one to synchronize the threads of the group. */
enum { PING_PONG = 1, GROUP_SYNC = PING_PONG + CONSUMERS };

/* A quantization grid in global memory: codes, scales and zero points. */
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
    struct coded_rows coded[2]; /* the second grid exists only in a chain */
};

/* The argument of the kernel. CUDA before 12.1 limits the arguments of a kernel to 4096 bytes. */
struct span_list {
    union rows of[2][MAX_SPANS]; /* rows of K, then of V */
    int n[MAX_SPANS];
    float log_m[MAX_SPANS];
    unsigned coded; /* bit i is set if span i is coded */
    float scale;
    unsigned one; /* the bits of 1.0f, passed at run time to prevent constant folding */
    struct cut cut;
};
static_assert(sizeof(struct span_list) + 256 <= 4096, "arguments of a kernel");

/* Position of a tile: the index of its span, and the tile's first token within the span. */
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

/* Advances the position to the next tile. */
static __device__ __forceinline__ void step(const struct span_list &l, struct tile_position &s)
{
    s.t += KEYS;
    if (s.t >= l.n[s.span]) {
        s.t = 0;
        s.span++;
    }
}

/* The mbarriers of a CTA: STAGES mbarriers of each kind. */
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
