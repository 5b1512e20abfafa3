/* onednn_guard.cc - the only file compiled with exceptions; see onednn_guard.h. */
#include "harness/core/onednn_guard.h"

#include <cstdlib>
#include <new>

/* oneDNN does not check posix_memalign() for its small objects. This checks beforehand that a
 * contiguous block below malloc's mmap threshold is available. */
static bool has_room() noexcept
{
    void *volatile probe = std::malloc(KVR_DNNL_ROOM); /* volatile: the pair must not be optimised
                                                       * away */

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
