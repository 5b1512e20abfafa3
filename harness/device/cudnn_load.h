/* cudnn_load.h - finds and loads NVIDIA's cuDNN at run time.
 *
 *     KVR_TRY(kvr_cudnn_load(&library));                       KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_cudnn_symbol(library, "cudnnCreate", &create));
 *     kvr_cudnn_unload(&library);
 *
 * The library is libcudnn.so.9, libcudnn.so.8 or libcudnn.so, or the one that the environment
 * variable KVREEL_CUDNN names. Since kvreel does not link cuDNN, it also runs without that library.
 * KVREEL_CUDNN=none disables cuDNN. Since cuDNN needs a GPU, the emulated device loads only a test
 * library that KVREEL_CUDNN names. The test library must define the symbol
 * kvr_on_the_emulated_device, which states that the library needs no GPU. The test library receives
 * kvr_stream_native() as its stream and accesses memory by the functions of stream.h. */
#ifndef KVR_DEVICE_CUDNN_LOAD_H
#define KVR_DEVICE_CUDNN_LOAD_H

#include <stddef.h>

#include "harness/core/status.h"

/* Loads cuDNN, and also NVRTC (libnvrtc.so.13 or libnvrtc.so.12), with which cuDNN compiles
 * attention kernels. The function searches for NVRTC next to cuDNN, in the folders of NVIDIA's
 * Python packages for CUDA, and on the dynamic loader's path. A missing NVRTC is not an error. */
enum kvr_status kvr_cudnn_load(void **library);
const char *kvr_cudnn_nvrtc(void);     /* file name of the loaded NVRTC, or NULL */
void kvr_cudnn_unload(void **library); /* accepts NULL */
/* Writes cuDNN's name and version, such as "cuDNN 9.10", to words [n]. Returns KVR_EUNSUPPORTED
 * with the reason if cuDNN cannot be loaded. */
enum kvr_status kvr_cudnn_name(char *words, size_t n);
/* Formats the cuDNN version number `version` as a name such as "cuDNN 9.10" into the buffer words
 * [n]. */
void kvr_cudnn_words(size_t version, char *words, size_t n);

/* Stores the address of cuDNN's function `name` in the function pointer that `function` points to.
 * Returns KVR_EUNSUPPORTED if the library has no such symbol. */
enum kvr_status kvr_cudnn_symbol(void *library, const char *name, void *function);

#endif
