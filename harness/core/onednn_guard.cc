/* onednn_guard.cc - see onednn_guard.h. This file is compiled with C++ exceptions. */
#include "harness/core/onednn_guard.h"

#include <cstdlib>
#include <new>

/* Whether malloc() can provide a contiguous block of KVR_DNNL_ROOM bytes, a size below its mmap
 * threshold. The wrappers check for this block before they call oneDNN, because oneDNN does not
 * check the result of posix_memalign() for its small objects. */
static bool has_room() noexcept
{
    /* volatile, so that the compiler does not optimise away malloc() and free() */
    void *volatile probe = std::malloc(KVR_DNNL_ROOM);

    std::free(probe);
    return probe;
}

#define GUARD(name, probe, parameters, arguments)                                                  \
    dnnl_status_t kvr_dnnl_##name parameters noexcept                                              \
    {                                                                                              \
        if (probe && !has_room())                                                                  \
            return dnnl_out_of_memory;                                                             \
        try {                                                                                      \
            return dnnl_##name arguments;                                                          \
        } catch (const std::bad_alloc &) {                                                         \
            return dnnl_out_of_memory;                                                             \
        } catch (...) {                                                                            \
            return dnnl_runtime_error;                                                             \
        }                                                                                          \
    }
#include "harness/core/onednn_guard.def"
#undef GUARD
