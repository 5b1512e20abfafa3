/* cudnn_load.h - NVIDIA's cuDNN, found when the program runs.
 *
 *     KVR_TRY(kvr_cudnn_load(&library));                       KVR_EUNSUPPORTED: why not
 *     KVR_TRY(kvr_cudnn_symbol(library, "cudnnCreate", &create));
 *     kvr_cudnn_unload(&library);
 *
 * A program links no cuDNN: libcudnn.so.9, .8 or libcudnn.so is looked for, or what KVREEL_CUDNN
 * names; KVREEL_CUDNN=none: it is not used. Emulated, NVIDIA's cannot compute: then a library is
 * only loaded by its name, and only if it has a symbol kvr_on_the_emulated_device. The stream that
 * such a one is given is kvr_stream_native(), by which it reaches memory through stream.h. */
#ifndef KVR_DEVICE_CUDNN_LOAD_H
#define KVR_DEVICE_CUDNN_LOAD_H

#include <stddef.h>

#include "harness/core/status.h"

enum kvr_status kvr_cudnn_load(void **library);
void kvr_cudnn_unload(void **library); /* copes with NULL */
/* "cuDNN 9.10" into words[n]; KVR_EUNSUPPORTED: no such library, and why. */
enum kvr_status kvr_cudnn_name(char *words, size_t n);
/* The same of a version as the library numbers it. */
void kvr_cudnn_words(size_t version, char *words, size_t n);

/* A function of the library into a pointer to functions. KVR_EUNSUPPORTED: it has none of that
 * name. */
enum kvr_status kvr_cudnn_symbol(void *library, const char *name, void *function);

#endif
