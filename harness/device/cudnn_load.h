/* cudnn_load.h - finds and loads NVIDIA's cuDNN at run time.
 *
 *     KVR_TRY(kvr_cudnn_load(&library));                       KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_cudnn_symbol(library, "cudnnCreate", &create));
 *     kvr_cudnn_unload(&library);
 *
 * The program does not link cuDNN. It tries libcudnn.so.9, .8 and libcudnn.so, or the library named
 * by KVREEL_CUDNN; KVREEL_CUDNN=none disables it. On the emulated device NVIDIA's library cannot
 * run: only a library named by KVREEL_CUDNN is loaded, and only if it defines
 * kvr_on_the_emulated_device. That library receives kvr_stream_native() as its stream and accesses
 * memory by the functions of stream.h. */
#ifndef KVR_DEVICE_CUDNN_LOAD_H
#define KVR_DEVICE_CUDNN_LOAD_H

#include <stddef.h>

#include "harness/core/status.h"

/* Also loads NVRTC (libnvrtc.so.13 or .12) if found: next to cuDNN, in the folder of NVIDIA's
 * Python package, or on the loader's path. */
enum kvr_status kvr_cudnn_load(void **library);
const char *kvr_cudnn_nvrtc(void);     /* the NVRTC this process has loaded; NULL for none */
void kvr_cudnn_unload(void **library); /* accepts NULL */
/* "cuDNN 9.10" into words[n]; KVR_EUNSUPPORTED with the reason. */
enum kvr_status kvr_cudnn_name(char *words, size_t n);
/* Writes the name "cuDNN 9.10" for a version number of the library. */
void kvr_cudnn_words(size_t version, char *words, size_t n);

/* Stores a function's address into a function pointer. KVR_EUNSUPPORTED: no such symbol. */
enum kvr_status kvr_cudnn_symbol(void *library, const char *name, void *function);

#endif
