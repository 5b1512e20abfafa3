/* onednn_guard.h - oneDNN's functions behind a border that no exception passes.
 *
 *     DNNL_TRY(kvr_dnnl_engine_create(&engine, dnnl_cpu, 0));
 *
 * oneDNN is C++ inside: std::bad_alloc leaves some of its C functions, and a C frame it meets ends
 * the program. Here that is dnnl_out_of_memory, and any other exception dnnl_runtime_error. Others
 * write to what they did not get: so much is made sure of before each call that makes something. */
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
