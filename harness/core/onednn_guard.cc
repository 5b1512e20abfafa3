/* onednn_guard.cc - the one file that is compiled with exceptions; see onednn_guard.h. */
#include "harness/core/onednn_guard.h"

#include <cstdlib>
#include <new>

/* Small objects of oneDNN come from posix_memalign(), whose failure it does not look for. What is
 * free in one piece here, and below malloc's threshold for mappings, is there for them after. */
static bool has_room() noexcept
{
    void *volatile room = std::malloc(KVR_DNNL_ROOM); /* else the pair would be optimised away */

    std::free(room);
    return room;
}

#define GUARD(name, room, parameters, arguments)                                                   \
    dnnl_status_t kvr_dnnl_##name parameters noexcept                                              \
    {                                                                                              \
        if (room && !has_room())                                                                   \
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
