/* onednn_guard.h - exception-free wrappers of oneDNN functions.
 *
 *     DNNL_TRY(kvr_dnnl_engine_create(&engine, dnnl_cpu, 0));
 *
 * oneDNN is written in C++. Some functions of its C interface throw std::bad_alloc, which would
 * terminate the program when it reaches a C function. The wrappers return dnnl_out_of_memory for
 * std::bad_alloc, and dnnl_runtime_error for any other exception. Some functions of oneDNN
 * dereference failed allocations. Before a call that creates a oneDNN object, the wrappers
 * therefore check that memory can be allocated. */
#ifndef KVR_CORE_ONEDNN_GUARD_H
#define KVR_CORE_ONEDNN_GUARD_H

#include <oneapi/dnnl/dnnl.h>

#ifdef __cplusplus
extern "C" {
#define KVR_NOEXCEPT noexcept
#else
#define KVR_NOEXCEPT
#endif

enum { KVR_DNNL_ROOM = 96 * 1024 };

#define GUARD(name, room, parameters, arguments)                                                   \
    dnnl_status_t kvr_dnnl_##name parameters KVR_NOEXCEPT;
#include "harness/core/onednn_guard.def"
#undef GUARD

#ifdef __cplusplus
}
#endif
#endif
