/* cudnn_load.c - see cudnn_load.h. */
#include "harness/device/cudnn_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/library.h"
#include "harness/device/stream.h"

static const char *const names[] = { "libcudnn.so.9", "libcudnn.so.8", "libcudnn.so" };

enum { N_NAMES = sizeof names / sizeof *names };

static enum kvr_status load_named(void **library, const char *name)
{
    const enum kvr_status st = kvr_library_open(library, name, RTLD_NOW | RTLD_LOCAL);

    return st == KVR_OK ? st : kvr_fail_prefix(st, "cuDNN");
}

static enum kvr_status load_any(void **library)
{
    enum kvr_status st = KVR_EUNSUPPORTED;

    for (int i = 0; i < N_NAMES && st == KVR_EUNSUPPORTED; i++)
        st = load_named(library, names[i]);
    return st == KVR_EUNSUPPORTED ? kvr_fail(st, "cuDNN: none of %s, %s, %s can be loaded",
                                             names[0], names[1], names[2])
                                  : st;
}

enum kvr_status kvr_cudnn_load(void **library)
{
    const char *said = getenv("KVREEL_CUDNN");

    *library = NULL;
    if (said && strcmp(said, "none") == 0)
        return kvr_fail(KVR_EUNSUPPORTED, "cuDNN: KVREEL_CUDNN says none");
    if (!said || !said[0])
        return kvr_stream_emulated() ? kvr_fail(KVR_EUNSUPPORTED, "cuDNN: kernels are emulated")
                                     : load_any(library);
    KVR_TRY(load_named(library, said));
    if (!kvr_stream_emulated() || dlsym(*library, "kvr_on_the_emulated_device"))
        return KVR_OK;
    kvr_cudnn_unload(library);
    return kvr_fail(KVR_EUNSUPPORTED, "cuDNN: kernels are emulated, and %s needs a GPU", said);
}

enum kvr_status kvr_cudnn_name(char *words, size_t n)
{
    size_t (*version)(void);
    void *library;
    enum kvr_status st;

    if (n)
        words[0] = 0;
    KVR_TRY(kvr_cudnn_load(&library));
    st = kvr_cudnn_symbol(library, "cudnnGetVersion", &version);
    if (st == KVR_OK)
        kvr_cudnn_words(version(), words, n);
    kvr_cudnn_unload(&library);
    return st;
}

/* 91002 is 9.10.2; before version 9 it was 8902 for 8.9.2. */
void kvr_cudnn_words(size_t version, char *words, size_t n)
{
    const size_t major = version >= 10000 ? 10000 : 1000;

    snprintf(words, n, "cuDNN %zu.%zu", version / major, version % major / 100);
}

void kvr_cudnn_unload(void **library)
{
    if (*library)
        dlclose(*library);
    *library = NULL;
}

/* Object pointer to function pointer, as in dlsym's manual. */
enum kvr_status kvr_cudnn_symbol(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    return *(void **)function ? KVR_OK
                              : kvr_fail(KVR_EUNSUPPORTED, "cuDNN: the library has no %s", name);
}
