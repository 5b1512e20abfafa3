/* emu.cuh - emulates, for the host compiler, the part of CUDA C++ that kernels use.
 *
 * The emulator runs every thread of a block as a fiber. A fiber runs until its thread exits or
 * waits at a barrier or warp operation. A pseudorandom scheduler, which kvr_stream_seed() seeds,
 * then chooses the fiber that runs next. The emulator runs one block, or one cluster of blocks, at
 * a time, in an order that this seed determines.
 *
 * The emulator reports errors that a GPU does not report. A memory error is an access out of
 * bounds, a misaligned access, or a read of uninitialized bytes. A data race is a pair of
 * conflicting accesses to one byte by two threads of a launch, unless a barrier or, within a warp,
 * a __syncwarp orders the two accesses. The emulator reports a race whichever access executes
 * first. A barrier error is a __syncthreads that some threads of the block never reach, because
 * these threads have exited or wait at another source line. A warp error is a warp operation whose
 * mask contains an exited lane or lacks the caller, or a shuffle from a lane outside the mask. The
 * emulator also reports deadlocks. Two pointer arguments of a kernel must not have equal addresses
 * unless both are const, because pointer arguments of type kvr_global<T> are __restrict__ under
 * nvcc. The emulator does not detect an overlap of two arguments whose addresses differ.
 *
 * The instructions of sm_90 are declared in hopper.cuh, and the rules that the emulator checks for
 * these instructions are listed in emu_hopper.cuh.
 *
 * After the first error the launch ends, and kvr_stream_sync() returns a message that names the
 * kernel, the block and the thread. The emulator does not support textures, grid-wide barriers,
 * fences of global memory, or threads that wait for a thread of another cluster. */
#ifndef KVR_DEVICE_EMU_CUH
#define KVR_DEVICE_EMU_CUH

#include <cmath>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

namespace kvr_emu
{

/* The built-in variables of a CUDA thread (threadIdx, blockIdx, ...). */
struct coords {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    /* rank of the thread's block in the cluster, and number of blocks in the cluster */
    unsigned rank, n_ranks;
    unsigned linear; /* index of the thread among all threads of the cluster */
};
/* The built-in variables of the running CUDA thread, or NULL while host code runs. The storage
 * class is __thread, because C++ checks the initialization of a thread_local variable at every
 * use. */
extern __thread struct coords *here;

[[noreturn]] void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory ---------------------------------------------------------------------------- */

struct region; /* an allocation of device memory, or a shared array of one block */

struct region *find(const void *p);
struct region *shared_array(const void *id, const char *name, size_t n_bytes);
struct region *shared_dynamic();
/* Maps r, a region of shared memory, to the same region in the shared memory of block `rank` of the
 * cluster. */
struct region *map_shared(struct region *r, unsigned rank);
void *begin(struct region *r);
/* The touch_* functions check and record an access of n bytes at address p, and return the host
 * memory that stores these bytes. */
void *touch_read(struct region *r, uintptr_t p, size_t n, size_t align);
void *touch_write(struct region *r, uintptr_t p, size_t n, size_t align);
void *touch_atomic(struct region *r, uintptr_t p, size_t n, size_t align);

template <class T> class element;

/* A checked pointer consists of an address and the region that contains the address. T may be
 * const. */
template <class T> class pointer
{
    uintptr_t at;
    struct region *in;

  public:
    pointer(uintptr_t p, struct region *r) : at(p), in(r)
    {
    }
    /* constructs the checked pointer from a pointer argument of a kernel */
    pointer(T *p) : at((uintptr_t)p), in(find(p))
    {
    }
    template <class U, class = std::enable_if_t<std::is_same<T, const U>::value>>
    pointer(pointer<U> p) : at(p.address()), in(p.inside())
    {
    }
    uintptr_t address() const
    {
        return at;
    }
    struct region *inside() const
    {
        return in;
    }
    pointer operator+(int64_t i) const
    {
        return pointer(at + (uintptr_t)i * sizeof(T), in);
    }
    element<T> operator[](int64_t i) const
    {
        return element<T>(*this + i);
    }
    element<T> operator*() const
    {
        return element<T>(*this);
    }
    explicit operator bool() const
    {
        return at != 0;
    }
    T *to_read() const
    {
        return (T *)touch_read(in, at, sizeof(T), alignof(T));
    }
    T *to_write() const
    {
        return (T *)touch_write(in, at, sizeof(T), alignof(T));
    }
    T *to_change() const
    {
        return (T *)touch_atomic(in, at, sizeof(T), alignof(T));
    }
};

template <class T> class element
{
    using value = std::remove_const_t<T>;
    pointer<T> p;

  public:
    explicit element(pointer<T> at) : p(at)
    {
    }
    element(const element &) = default;
    operator value() const
    {
        return *p.to_read();
    }
    const element &operator=(value v) const
    {
        *p.to_write() = v;
        return *this;
    }
    const element &operator=(const element &other) const
    {
        return *this = (value)other;
    }
    const element &operator+=(value v) const
    {
        return *this = (value)((value) * this + v);
    }
    const element &operator*=(value v) const
    {
        return *this = (value)((value) * this * v);
    }
};

/* ---- warps ----------------------------------------------------------------------------- */

enum warp_kind {
    SHFL,
    SHFL_UP,
    SHFL_DOWN,
    SHFL_XOR,
    BALLOT,
    MATCH_ANY,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    SYNC,
    TOGETHER,
};
uint64_t warp(enum warp_kind kind, unsigned mask, uint64_t value, int arg, int width,
              const char *file, int line);

template <class T>
T shuffle(enum warp_kind kind, unsigned mask, T v, int arg, int width, const char *file, int line)
{
    uint64_t bits = 0;

    static_assert(sizeof v <= sizeof bits, "a shuffle moves at most 8 bytes");
    std::memcpy(&bits, &v, sizeof v);
    bits = warp(kind, mask, bits, arg, width, file, line);
    std::memcpy(&v, &bits, sizeof v);
    return v;
}

/* All 32 lanes of a warp must call this function. The last lane that calls it runs `fn` once, with
 * the pointers `mine` of all lanes. Warp operations that exchange more than 8 bytes per lane use
 * this function. */
void run_lanes_together(void (*fn)(void *const *lanes), void *mine, const char *file, int line);

/* ---- asynchronous copies ---------------------------------------------------------------- */

/* Starts a cp.async of n bytes from global memory at `source` to shared memory at `at`. If `zeros`
 * is true, the cp.async reads no source and writes n zero bytes. The copy completes when its thread
 * has waited for the copy's group. Until then, an access to the bytes at `at` is an error. */
void copy_begin(struct region *to, uintptr_t at, struct region *from, uintptr_t source, size_t n,
                bool zeros);
void copy_commit();
/* Waits until at most `pending` of the thread's cp.async groups are in flight. */
void copy_wait(unsigned pending);

/* ---- launches -------------------------------------------------------------------------- */

/* The configuration of a kernel launch. */
struct shape {
    const char *name;
    dim3 grid, block;
    size_t shared_bytes;
    unsigned cluster; /* number of blocks of a cluster; these blocks are adjacent along x */
    /* address of the kernel function, by which the emulator identifies the kernel */
    const void *entry;
};

void run(struct kvr_stream *s, const struct shape *shape, void (*body)(void *), void *arg);

/* A kernel argument. `at` is the address that a pointer argument contains, or 0 if the argument is
 * not a pointer. `written` is true if the kernel may write through the pointer (T is not const). */
struct argument {
    uintptr_t at;
    bool written;
};
template <class T> struct argument argument_of(const pointer<T> &p)
{
    return { p.address(), !std::is_const<T>::value };
}
template <class T> struct argument argument_of(const T &)
{
    return { 0, false };
}
/* Records an error if two of the n kernel arguments are pointers with equal addresses and the
 * kernel may write through at least one of the two. */
void check_apart(struct kvr_stream *s, const char *kernel, const struct argument *a, int n);

/* A function that executes one operation of a stream. The emulator calls this function immediately
 * or, if the stream is capturing a graph, at each launch of the graph. */
typedef void player(struct kvr_stream *s, const struct shape *shape, void *args);
bool capturing(const struct kvr_stream *s);
/* Appends a graph node that calls `play`, and returns memory for the node's n bytes of arguments.
 * Returns NULL, and records an error on the stream, if the launch is invalid or the host has no
 * memory for the node. */
void *keep_step(struct kvr_stream *s, const struct shape *shape, player *play, size_t n);

/* A graph node stores kernel arguments as plain values. Because the emulator finds the region of a
 * pointer argument only when the kernel runs, it detects a graph launch that uses freed memory. */
template <class F, class... A> struct call;
template <class... P, class... A> struct call<void (*)(P...), A...> {
    void (*kernel)(P...);
    std::tuple<A...> args;

    static void play(struct kvr_stream *s, const struct shape *shape, void *self)
    {
        struct ready {
            void (*kernel)(P...);
            std::tuple<P...> args;
        } r = { ((call *)self)->kernel, std::apply(checked, ((call *)self)->args) };

        std::apply(
            [s, shape](const P &...p) {
                const struct argument all[] = { argument_of(p)..., {} };

                check_apart(s, shape->name, all, (int)sizeof...(P));
            },
            r.args);
        run(
            s, shape,
            [](void *p) {
                struct ready *mine = (struct ready *)p;

                std::apply(mine->kernel, mine->args);
            },
            &r);
    }
    static std::tuple<P...> checked(A... a)
    {
        return std::tuple<P...>(static_cast<P>(a)...);
    }
};

template <class F, class... A>
void launch(struct kvr_stream *s, const struct shape &shape, F kernel, A... a)
{
    using call = struct call<F, A...>;
    call c = { kernel, std::tuple<A...>(a...) };

    static_assert(std::is_trivially_destructible<call>::value,
                  "a graph never destroys its arguments");
    if (!capturing(s)) {
        call::play(s, &shape, &c);
        return;
    }
    if (void *kept = keep_step(s, &shape, call::play, sizeof c))
        new (kept) call(c);
}

} // namespace kvr_emu

template <class T> using kvr_global = kvr_emu::pointer<T>;
template <class T> using kvr_shared = kvr_emu::pointer<T>;

/* Every expansion of KVR_SHARED contains its own lambda, so the address of the static variable `id`
 * identifies one declared array. */
#define KVR_SHARED(T, name, n)                                                                     \
    const kvr_shared<T> name = [] {                                                                \
        static const char id = 0;                                                                  \
        struct kvr_emu::region *r = kvr_emu::shared_array(&id, #name, sizeof(T) * (size_t)(n));    \
                                                                                                   \
        return kvr_shared<T>((uintptr_t)kvr_emu::begin(r), r);                                     \
    }()
#define KVR_SHARED_DYNAMIC(T, name)                                                                \
    const kvr_shared<T> name((uintptr_t)kvr_emu::begin(kvr_emu::shared_dynamic()),                 \
                             kvr_emu::shared_dynamic())
#define KVR_LAUNCH(kernel, grid, block, shared, s, ...)                                            \
    KVR_LAUNCH_CLUSTERS(kernel, 1, grid, block, shared, s, __VA_ARGS__)
#define KVR_LAUNCH_CLUSTERS(kernel, cluster, grid, block, shared, s, ...)                          \
    do {                                                                                           \
        if (KVR_MAY_SHARE(kernel, shared, s))                                                      \
            kvr_emu::launch(s,                                                                     \
                            kvr_emu::shape{ #kernel, dim3(grid), dim3(block), (size_t)(shared),    \
                                            (unsigned)(cluster), (const void *)(kernel) },         \
                            kernel, __VA_ARGS__);                                                  \
    } while (0)

#define threadIdx (kvr_emu::here->thread)
#define blockIdx (kvr_emu::here->block)
#define blockDim (kvr_emu::here->block_dim)
#define gridDim (kvr_emu::here->grid_dim)
#define warpSize 32

/* ---- CUDA functions ---------------------------------------------------------------------- */

#define KVR_EMU_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

void __syncthreads(KVR_EMU_AT);

static inline void __syncwarp(unsigned mask = ~0u, KVR_EMU_AT)
{
    kvr_emu::warp(kvr_emu::SYNC, mask, 0, 0, 32, file, line);
}
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32, KVR_EMU_AT)
{
    return kvr_emu::shuffle(kvr_emu::SHFL, mask, v, lane, width, file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, KVR_EMU_AT)
{
    return kvr_emu::shuffle(kvr_emu::SHFL_UP, mask, v, (int)by, width, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, KVR_EMU_AT)
{
    return kvr_emu::shuffle(kvr_emu::SHFL_DOWN, mask, v, (int)by, width, file, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, KVR_EMU_AT)
{
    return kvr_emu::shuffle(kvr_emu::SHFL_XOR, mask, v, bits, width, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int yes, KVR_EMU_AT)
{
    return (unsigned)kvr_emu::warp(kvr_emu::BALLOT, mask, yes != 0, 0, 32, file, line);
}
static inline int __any_sync(unsigned mask, int yes, KVR_EMU_AT)
{
    return __ballot_sync(mask, yes, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int yes, KVR_EMU_AT)
{
    return __ballot_sync(mask, yes, file, line) == mask;
}
static inline unsigned __match_any_sync(unsigned mask, unsigned v, KVR_EMU_AT)
{
    return (unsigned)kvr_emu::warp(kvr_emu::MATCH_ANY, mask, v, 0, 32, file, line);
}
static inline int __reduce_add_sync(unsigned mask, int v, KVR_EMU_AT)
{
    return (int)kvr_emu::warp(kvr_emu::REDUCE_ADD, mask, (uint64_t)v, 0, 32, file, line);
}
static inline int __reduce_min_sync(unsigned mask, int v, KVR_EMU_AT)
{
    return (int)kvr_emu::warp(kvr_emu::REDUCE_MIN, mask, (uint64_t)v, 0, 32, file, line);
}
static inline int __reduce_max_sync(unsigned mask, int v, KVR_EMU_AT)
{
    return (int)kvr_emu::warp(kvr_emu::REDUCE_MAX, mask, (uint64_t)v, 0, 32, file, line);
}

template <class T> static inline T atomicAdd(kvr_emu::pointer<T> p, T v)
{
    T *at = p.to_change(), old = *at;

    *at = (T)(old + v);
    return old;
}
template <class T> static inline T atomicMax(kvr_emu::pointer<T> p, T v)
{
    T *at = p.to_change(), old = *at;

    *at = old > v ? old : v;
    return old;
}
template <class T> static inline T atomicMin(kvr_emu::pointer<T> p, T v)
{
    T *at = p.to_change(), old = *at;

    *at = old < v ? old : v;
    return old;
}
template <class T> static inline T atomicOr(kvr_emu::pointer<T> p, T v)
{
    T *at = p.to_change(), old = *at;

    *at = old | v;
    return old;
}
template <class T> static inline T atomicCAS(kvr_emu::pointer<T> p, T compare, T v)
{
    T *at = p.to_change(), old = *at;

    *at = old == compare ? v : old;
    return old;
}
template <class T> static inline std::remove_const_t<T> __ldg(kvr_emu::pointer<T> p)
{
    return *p;
}

/* The FP16 and BF16 types, with the conversions that CUDA's headers define. */
struct __half {
    kvr_f16 bits;
};
struct __nv_bfloat16 {
    kvr_bf16 bits;
};
static inline __half __float2half_rn(float x)
{
    return { kvr_f32_to_f16(x) };
}
static inline float __half2float(__half h)
{
    return kvr_f16_to_f32(h.bits);
}
static inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}
static inline __half __ushort_as_half(unsigned short u)
{
    return { u };
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return { kvr_f32_to_bf16(x) };
}
static inline float __bfloat162float(__nv_bfloat16 h)
{
    return kvr_bf16_to_f32(h.bits);
}

static inline unsigned __float_as_uint(float x)
{
    return kvr_f32_bits(x);
}
static inline float __uint_as_float(unsigned u)
{
    return kvr_bits_f32(u);
}
/* The instruction PRMT: if hex digit i of the selector `which` is d < 8, byte i of the result is
 * byte d of the 64-bit number with the upper word `b` and the lower word `a`. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned r = 0;

    for (int i = 0; i < 4; i++)
        r |= (unsigned)(both >> (8 * (which >> (4 * i) & 7u)) & 255u) << (8 * i);
    return r;
}
/* Returns `c` plus the dot product of `a` and `b`, read as vectors of four unsigned bytes. */
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 255u) * (b >> i & 255u);
    return c;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __popc(unsigned u)
{
    return __builtin_popcount(u);
}
static inline int __clz(int u)
{
    return u ? __builtin_clz((unsigned)u) : 32;
}
static inline int __ffs(int u)
{
    return __builtin_ffs(u);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

#endif
