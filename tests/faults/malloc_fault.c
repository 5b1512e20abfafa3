/* malloc_fault.c - makes the n-th allocation of a program fail. It is preloaded:
 *
 *     LD_PRELOAD=build/tests/faults/malloc_fault.so FAULT_NTH=17 kvreel list methods
 *         fails allocation 17
 *     LD_PRELOAD=... FAULT_PLACES=FILE kvreel list methods
 *         fails none, and appends to FILE the numbers of the allocations worth failing
 *     LD_PRELOAD=... FAULT_WITHIN=kvr_scheme_open FAULT_NTH=2 kvreel list methods
 *         fails allocation 2 among those of this function and its callees
 *
 * Allocations with the same call stack count as one call site. FILE gets one line per call site,
 * the number of its first allocation, and a last line with the number of all allocations. Of a
 * stack, only the three innermost return addresses and those inside the program's own code are
 * compared. SQLite, for instance, makes a hundred thousand allocations at a thousand call sites.
 *
 * Counting starts at main(), which leaves out the loader and the constructors of libraries. A
 * forked process inherits its parent's count and call sites, and appends them to FILE when it calls
 * _exit(). Only kvreel processes are counted, not other programs that they start (gnuplot,
 * metrics). With FAULT_IN=worker only `kvreel worker` processes are counted, without it only the
 * other kvreel processes. */
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <dlfcn.h>
#include <unistd.h>

/* glibc's own functions. The functions below call these directly, because looking up the replaced
 * malloc() with dlsym() would itself allocate. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
/* This file also defines the following functions, which no included header declares. */
void *memalign(size_t alignment, size_t n);
int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*unload)(void), void *stack);

static atomic_bool counting;
static atomic_long n_asked;
static long fail_at;

enum { DEPTH = 64, OURS = 2, LAST = 3, MAX_PLACES = 1 << 16 };
static uint64_t seen[MAX_PLACES]; /* hashes of stacks, by open addressing; 0 marks a free entry */
static long first_of[MAX_PLACES], n_places;
static pthread_mutex_t places = PTHREAD_MUTEX_INITIALIZER;
static bool looking, telling;
static uintptr_t text_start, text_end; /* address range of the program's own code */
/* Address range of the function whose allocations count, or 0 to count all. */
static uintptr_t within_start, within_end;

static int first_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            text_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            text_end = text_start + info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* stop: the program itself is the first object that dl_iterate_phdr() reports */
}

static void remember(long n)
{
    static _Thread_local bool inside;
    uint64_t hash = 14695981039346656037u;
    void *callers[DEPTH];
    int depth;

    if (inside)
        return;
    inside = true;
    depth = backtrace(callers, DEPTH);
    for (int i = OURS; i < depth; i++) {
        const uintptr_t caller = (uintptr_t)callers[i];

        if (i < OURS + LAST || (caller >= text_start && caller < text_end))
            hash = (hash ^ (uint64_t)caller) * 1099511628211u;
    }
    hash |= 1;
    pthread_mutex_lock(&places);
    for (size_t at = hash >> 40; n_places < MAX_PLACES / 2; at++) {
        uint64_t *slot = &seen[at % MAX_PLACES];

        if (*slot == hash)
            break;
        if (*slot == 0) {
            *slot = hash;
            first_of[n_places++] = n;
            break;
        }
    }
    pthread_mutex_unlock(&places);
    inside = false;
}

static bool is_within(void)
{
    static _Thread_local bool inside;
    void *callers[DEPTH];
    bool found = false;
    int depth;

    if (inside)
        return false;
    inside = true;
    depth = backtrace(callers, DEPTH);
    for (int i = OURS; i < depth; i++)
        found =
            found || ((uintptr_t)callers[i] > within_start && (uintptr_t)callers[i] <= within_end);
    inside = false;
    return found;
}

/* Finds the address range of a function that the program exports. It exports all functions that
 * are not static. */
static void look_within(const char *name)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    const ElfW(Sym) *symbol = NULL;
    Dl_info who;

    if (!at || !dladdr1(at, &who, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) {
        fprintf(stderr, "malloc_fault: the program has no function %s\n", name);
        abort();
    }
    within_start = (uintptr_t)at;
    within_end = within_start + symbol->st_size;
}

/* FFmpeg asserts that it could set an encoder's defaults, so these allocations never fail.
 * harness/files/media/mp4.c checks for sufficient memory beforehand. */
static uintptr_t defaults_start, defaults_end;

static bool has_room_for_defaults(void)
{
    void *callers[DEPTH];
    bool yes = false;
    int depth;

    if (!defaults_end)
        return false;
    atomic_store(&counting, false);
    depth = backtrace(callers, DEPTH);
    atomic_store(&counting, true);
    for (int i = OURS; i < depth; i++)
        yes = yes ||
              ((uintptr_t)callers[i] > defaults_start && (uintptr_t)callers[i] <= defaults_end);
    return yes;
}

static bool fails(void)
{
    long n;

    if (!atomic_load_explicit(&counting, memory_order_relaxed))
        return false;
    if (!looking && atomic_load(&n_asked) >= fail_at)
        return false; /* the one failure has happened; skip the costly backtrace */
    if (within_end && !is_within())
        return false;
    n = atomic_fetch_add(&n_asked, 1) + 1;
    if (looking)
        remember(n);
    if (n != fail_at || has_room_for_defaults())
        return false;
    if (telling) {
        void *callers[DEPTH];

        atomic_store(&counting, false);
        backtrace_symbols_fd(callers, backtrace(callers, DEPTH), 2);
        atomic_store(&counting, true);
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return n && fails() ? NULL : __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

void *memalign(size_t alignment, size_t n)
{
    return fails() ? NULL : __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return memalign(alignment, n);
}

/* Returns whether this is an allocation of at most 32 KiB by oneDNN. Such allocations never fail
 * here, because harness/core/onednn_guard.cc checks for sufficient memory beforehand. */
static bool has_room(const void *caller, size_t n)
{
    enum { SMALL = 32 * 1024 };
    Dl_info who;

    return n <= SMALL && dladdr(caller, &who) && strstr(who.dli_fname, "/libdnnl.");
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    void *p = has_room(__builtin_return_address(0), n) ? __libc_memalign(alignment, n)
                                                       : memalign(alignment, n);

    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

static void report(void)
{
    FILE *f;

    atomic_store(&counting, false);
    /* append, because child processes write to the same file */
    f = fopen(getenv("FAULT_PLACES"), "a");
    if (f) {
        for (long i = 0; i < n_places; i++)
            fprintf(f, "%ld\n", first_of[i]);
        fprintf(f, "%ld\n", atomic_load(&n_asked));
        fclose(f);
    }
}

void _exit(int status)
{
    if (looking)
        report();
    syscall(SYS_exit_group, status);
    abort(); /* not reached */
}

/* Allocations are not counted while dlopen() loads one of FFmpeg's libraries. They load about fifty
 * other libraries, whose constructors (GLib's, C++'s) end the process if they get no memory. kvreel
 * cannot prevent that. */
void *dlopen(const char *name, int flags)
{
    const bool was = atomic_load(&counting);
    void *(*real)(const char *, int), *handle;

    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    if (name && (strncmp(name, "libav", 5) == 0 || strncmp(name, "libsw", 5) == 0))
        atomic_store(&counting, false);
    handle = real(name, flags);
    if (handle && name && strncmp(name, "libavcodec.", 11) == 0) {
        void *at = dlsym(handle, "avcodec_alloc_context3");
        const ElfW(Sym) *symbol = NULL;
        Dl_info who;

        if (at && dladdr1(at, &who, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
            defaults_start = (uintptr_t)at;
            defaults_end = defaults_start + symbol->st_size;
        }
    }
    atomic_store(&counting, was);
    return handle;
}

/* Returns whether this process runs the same executable file as the process that was started first.
 * Workers of kvreel do; gnuplot does not. */
static bool is_the_program(void)
{
    char is[64];
    const char *first = getenv("FAULT_PROGRAM");
    struct stat sb;

    if (stat("/proc/self/exe", &sb) != 0)
        return true;
    snprintf(is, sizeof is, "%lld:%lld", (long long)sb.st_dev, (long long)sb.st_ino);
    return first ? strcmp(first, is) == 0 : setenv("FAULT_PROGRAM", is, 1) == 0;
}

static int (*program)(int, char **, char **);

static int counted_main(int argc, char **argv, char **env)
{
    const char *nth = getenv("FAULT_NTH"), *in = getenv("FAULT_IN");
    const bool worker = argc > 1 && strcmp(argv[1], "worker") == 0;

    fail_at = nth ? atol(nth) : 0;
    if (is_the_program() && worker == (in && strcmp(in, "worker") == 0)) {
        void *callers[2];

        looking = getenv("FAULT_PLACES") != NULL;
        telling = getenv("FAULT_TELL") != NULL;
        if (getenv("FAULT_WITHIN"))
            look_within(getenv("FAULT_WITHIN"));
        dl_iterate_phdr(first_object, NULL);
        /* The first call of backtrace() loads a library, which allocates. It happens here, before
         * allocations are counted. */
        backtrace(callers, 2);
        if (looking)
            atexit(report);
        atomic_store(&counting, true);
    }
    return program(argc, argv, env);
}

int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*unload)(void), void *stack)
{
    int (*real)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                void (*)(void), void *);

    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    program = start;
    return real(counted_main, argc, argv, init, fini, unload, stack);
}
