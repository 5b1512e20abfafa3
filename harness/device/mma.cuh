/* mma.cuh - BF16 MMA on tensor cores, ldmatrix and cp.async.
 *
 * The function kvr_cp_async starts an asynchronous copy of 16 bytes from global to shared memory. A
 * call of kvr_cp_async_commit puts a thread's copies into a group, and kvr_cp_async_wait<0> waits
 * for all groups of the calling thread. A __syncthreads then makes the copies of all threads
 * visible to the block. The function kvr_ldmatrix loads the fragments of an operand by ldmatrix,
 * and kvr_mma(c, a, b) computes c += a * b.
 *
 * All 32 lanes of a warp call kvr_ldmatrix and kvr_mma together. Operand `a` is [16,16], `b` is
 * [16,8] and `c` is [16,8]. Let g = lane / 4 and t = lane % 4. Each 32-bit register of `a` or `b`
 * contains two BF16 elements. The four registers of `a` contain columns 2t and 2t + 1 of rows g and
 * g + 8, and then columns 2t + 8 and 2t + 9 of these two rows. The two registers of `b` contain
 * rows 2t and 2t + 1 of column g, and then rows 2t + 8 and 2t + 9. The four registers of `c`
 * contain columns 2t and 2t + 1 of row g, and then columns 2t and 2t + 1 of row g + 8.
 *
 * Under nvcc, kvr_ldmatrix and kvr_mma are PTX instructions. In the emulator, kvr_mma adds the
 * exact products a[i][k] * b[k][j] to c[i][j] in F32, for k from 0 to 15. A GPU adds the products
 * in an unspecified order, and may truncate bits below 2^-23 of the largest term. Because each of
 * the 16 products may be truncated, tests allow an error of 16 * 2^-23 of the largest term per
 * MMA. */
#ifndef KVR_DEVICE_MMA_CUH
#define KVR_DEVICE_MMA_CUH

#include "harness/device/number.cuh"
#include "harness/device/vector.cuh"

/* ---- numbers ------------------------------------------------------------------------------ */

/* Rounds two floats to the nearest BF16, ties to even. The float `low` becomes the low half of the
 * result, and `high` becomes the high half. On a GPU, every NaN becomes the BF16 NaN 0x7fff; in the
 * emulator, a NaN keeps its sign and the upper bits of its payload. For the NaN that a GPU's
 * arithmetic produces (0x7fffffff), both rules give 0x7fff. */
static __device__ __forceinline__ unsigned kvr_bf16_pair(float low, float high)
{
#ifdef KVR_EMULATED
    return (unsigned)kvr_f32_to_bf16(high) << 16 | kvr_f32_to_bf16(low);
#else
    unsigned r;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#endif
}

static __device__ __forceinline__ float kvr_bf16_low(unsigned pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float kvr_bf16_high(unsigned pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

/* Squares both BF16 halves of `pair`, each with one rounding. */
static __device__ __forceinline__ unsigned kvr_bf16_square(unsigned pair)
{
#ifdef KVR_EMULATED
    const float low = kvr_bf16_low(pair), high = kvr_bf16_high(pair);

    return kvr_bf16_pair(low * low, high * high);
#else
    unsigned r;

    /* Computes fma(x, x, -0), because sm_80 has a BF16 FMA but no BF16 multiplication. */
    asm("fma.rn.bf16x2 %0, %1, %1, %2;" : "=r"(r) : "r"(pair), "r"(0x80008000u));
    return r;
#endif
}

/* Maps each BF16 half of `pair` to a signed 16-bit integer. The integers are in the same order as
 * the BF16 numbers, with -0 below 0. The mapping is its own inverse. */
static __device__ __forceinline__ unsigned kvr_bf16_order(unsigned pair)
{
#ifdef KVR_EMULATED
    const unsigned negative = (pair >> 15 & 0x10001u) * 0xffffu;
#else
    unsigned negative;

    /* Copies the sign bit of each half to all 16 bits of the half. */
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(negative) : "r"(pair));
#endif
    return pair ^ (negative & 0x7fff7fffu);
}

/* Returns, for each of the two BF16 halves, the minimum or maximum of `a` and `b`, where -0 is
 * less than 0. If this half of `a` or `b` is NaN, this half of the result is the NaN 0x7fff. */
template <bool LARGER>
static __device__ __forceinline__ unsigned kvr_bf16_choice(unsigned a, unsigned b)
{
    unsigned r = 0;

#ifdef KVR_EMULATED
    for (int h = 0; h < 32; h += 16) {
        const bool nan = (a >> h & 0x7fffu) > 0x7f80u || (b >> h & 0x7fffu) > 0x7f80u;
        const int16_t x = (int16_t)(kvr_bf16_order(a) >> h), y = (int16_t)(kvr_bf16_order(b) >> h);

        r |= (nan ? 0x7fffu : ((x < y) != LARGER ? a : b) >> h & 0xffffu) << h;
    }
#else
    if (LARGER)
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else
        asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#endif
    return r;
}

/* Returns 2^x within 2 ulp, or 0 if the result is below 2^-126. */
static __device__ __forceinline__ float kvr_exp2(float x)
{
#ifdef KVR_EMULATED
    return x < -126.0f ? 0.0f : exp2f(x);
#else
    float r;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* Returns 1 / x within 1 ulp. A subnormal x counts as 0, so the result is infinite. A subnormal
 * result is replaced by 0. Zeros keep their signs. */
static __device__ __forceinline__ float kvr_reciprocal(float x)
{
#ifdef KVR_EMULATED
    const float r = 1.0f / (fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x);

    return fabsf(r) < 0x1p-126f ? copysignf(0.0f, r) : r;
#else
    float r;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}

/* Computes a * b + c for packed pairs of BF16 numbers (bf16x2), with one rounding each (FMA). */
static __device__ __forceinline__ unsigned kvr_bf16_fma(unsigned a, unsigned b, unsigned c)
{
#ifdef KVR_EMULATED
    const float low =
        fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), __uint_as_float(c << 16));
    const float high = fmaf(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u),
                            __uint_as_float(c & 0xffff0000u));

    return kvr_bf16_pair(low, high);
#else
    unsigned r;

    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
#endif
}

/* Reads threadIdx.x with a volatile instruction. The compiler therefore recomputes values that
 * depend on the thread index, instead of keeping these values in registers across a loop. */
static __device__ __forceinline__ int kvr_thread()
{
#ifdef KVR_EMULATED
    return (int)threadIdx.x;
#else
    int x;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    __builtin_assume(x >= 0); /* lets the compiler replace x / 2^n by a shift */
    return x;
#endif
}

/* Read blockIdx.x and blockIdx.y with a volatile instruction, so that the compiler recomputes
 * values that depend on the block index, instead of keeping these values in registers. */
static __device__ __forceinline__ int kvr_block_x()
{
#ifdef KVR_EMULATED
    return (int)blockIdx.x;
#else
    int x;

    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
#endif
}

static __device__ __forceinline__ int kvr_block_y()
{
#ifdef KVR_EMULATED
    return (int)blockIdx.y;
#else
    int y;

    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(y));
    return y;
#endif
}

/* Returns 0 from a volatile instruction, so that the compiler does not know the value. Adding this
 * 0 to an address prevents the compiler from hoisting the computation of the address out of a
 * loop. */
static __device__ __forceinline__ int kvr_zero()
{
#ifdef KVR_EMULATED
    return 0;
#else
    int x;

    asm volatile("mov.u32 %0, 0;" : "=r"(x));
    return x;
#endif
}

/* ---- asynchronous copies ------------------------------------------------------------------ */

/* Starts a cp.async of 16 aligned bytes. If `there` is false, the copy writes zeros and does not
 * read `from`. */
static __device__ __forceinline__ void kvr_cp_async(kvr_shared<uint4> to,
                                                    kvr_global<const uint4> from, bool there)
{
#ifdef KVR_EMULATED
    kvr_emu::copy_begin(to.inside(), to.address(), from.inside(), from.address(), 16, !there);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#endif
}

/* Starts the copy of kvr_cp_async through the L1 cache (cp.async.ca), for data that this CTA
 * reads again. */
static __device__ __forceinline__ void kvr_cp_async_ca(kvr_shared<uint4> to,
                                                       kvr_global<const uint4> from, bool there)
{
#ifdef KVR_EMULATED
    kvr_cp_async(to, from, there);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#endif
}

/* Commits the copies that this thread has issued since its last commit as one group, which may be
 * empty. */
static __device__ __forceinline__ void kvr_cp_async_commit()
{
#ifdef KVR_EMULATED
    kvr_emu::copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most N groups of copies of this thread are in flight. */
template <int N> static __device__ __forceinline__ void kvr_cp_async_wait()
{
#ifdef KVR_EMULATED
    kvr_emu::copy_wait(N);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* ---- tensor cores ------------------------------------------------------------------------- */

#ifdef KVR_EMULATED
namespace kvr_emu
{

struct matrices_lane {
    uint4 row;
    unsigned out[4];
    bool transposed;
};

/* Emulates ldmatrix.x4, which loads four 8 x 8 BF16 matrices, for all lanes of a warp. The member
 * `row` of lane l contains row l % 8 of matrix l / 8. */
static inline void matrices_of(void *const *lanes)
{
    for (int l = 0; l < 32; l++) {
        struct matrices_lane *mine = (struct matrices_lane *)lanes[l];

        for (int m = 0; m < 4; m++) {
            const kvr_bf16 *rows[8];

            for (int r = 0; r < 8; r++)
                rows[r] = (const kvr_bf16 *)&((struct matrices_lane *)lanes[8 * m + r])->row;
            const int a = l / 4, b = l % 4 * 2;

            mine->out[m] = mine->transposed ? (unsigned)rows[b + 1][a] << 16 | rows[b][a]
                                            : (unsigned)rows[a][b + 1] << 16 | rows[a][b];
        }
    }
}

static inline void load_matrices(unsigned *out, pointer<const uint4> row, bool transposed,
                                 const char *file, int line)
{
    struct matrices_lane mine = { row[0], {}, transposed };

    run_lanes_together(matrices_of, &mine, file, line);
    memcpy(out, mine.out, sizeof mine.out);
}

struct mma_lane {
    float *c;
    const unsigned *a, *b;
};

static inline float half_of(unsigned pair, int high)
{
    return high ? kvr_bf16_high(pair) : kvr_bf16_low(pair);
}

static inline void mma_of(void *const *lanes)
{
    float a[16][16], b[16][8], c[16][8];

    for (int l = 0; l < 32; l++) {
        const struct mma_lane *f = (const struct mma_lane *)lanes[l];
        const int g = l / 4, t = l % 4 * 2;

        for (int i = 0; i < 2; i++) {
            for (int r = 0; r < 4; r++)
                a[g + r % 2 * 8][t + r / 2 * 8 + i] = half_of(f->a[r], i);
            for (int r = 0; r < 2; r++) {
                b[t + r * 8 + i][g] = half_of(f->b[r], i);
                c[g + r * 8][t + i] = f->c[2 * r + i];
            }
        }
    }
    for (int m = 0; m < 16; m++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 8; n++)
                c[m][n] += a[m][k] * b[k][n];
    for (int l = 0; l < 32; l++) {
        const struct mma_lane *f = (const struct mma_lane *)lanes[l];

        for (int i = 0; i < 4; i++)
            f->c[i] = c[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
    }
}

} // namespace kvr_emu

static inline void kvr_ldmatrix(unsigned *out, kvr_shared<const kvr_bf16> row, KVR_EMU_AT)
{
    kvr_emu::load_matrices(out, kvr_as<const uint4>(row), false, file, line);
}
static inline void kvr_ldmatrix_transposed(unsigned *out, kvr_shared<const kvr_bf16> row,
                                           KVR_EMU_AT)
{
    kvr_emu::load_matrices(out, kvr_as<const uint4>(row), true, file, line);
}
static inline void kvr_mma(float *c, const unsigned *a, const unsigned *b, KVR_EMU_AT)
{
    struct kvr_emu::mma_lane mine = { c, a, b };

    kvr_emu::run_lanes_together(kvr_emu::mma_of, &mine, file, line);
}
#else
/* ldmatrix.x4 loads four 8 x 8 matrices. Lane l supplies the address of row l % 8 of matrix l / 8.
 * Of each matrix, lane l receives columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4. */
static __device__ __forceinline__ void kvr_ldmatrix(unsigned *out, kvr_shared<const kvr_bf16> row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Loads four 8 x 8 matrices and transposes each of them (ldmatrix.x4.trans). */
static __device__ __forceinline__ void kvr_ldmatrix_transposed(unsigned *out,
                                                               kvr_shared<const kvr_bf16> row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Computes c += a * b for operands `a` [16,16], `b` [16,8] and `c` [16,8]. Each lane holds 4
 * registers of `c`, 4 registers of `a` and 2 registers of `b`. */
static __device__ __forceinline__ void kvr_mma(float *c, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#endif
