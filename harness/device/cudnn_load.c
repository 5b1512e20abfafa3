/* cudnn_load.c - see cudnn_load.h. */
#include "harness/device/cudnn_load.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/library.h"
#include "harness/device/stream.h"

static const char *const names[] = { "libcudnn.so.9", "libcudnn.so.8", "libcudnn.so" };

static const char *const nvrtc[] = { "libnvrtc.so.13", "libnvrtc.so.12" };
/* Folders that contain NVRTC in Python packages, relative to the folder of cuDNN. */
static const char *const nvrtc_prefixes[] = { "", "../../cu13/lib/", "../../cuda_nvrtc/lib/" };

enum {
    N_NAMES = sizeof names / sizeof *names,
    N_NVRTC = sizeof nvrtc / sizeof *nvrtc,
    N_PREFIXES = sizeof nvrtc_prefixes / sizeof *nvrtc_prefixes
};

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
    return st == KVR_EUNSUPPORTED
               ? kvr_fail(st,
                          "cuDNN: none of %s, %s, %s can be loaded; set the "
                          "environment variable KVREEL_CUDNN to the library's file",
                          names[0], names[1], names[2])
               : st;
}

const char *kvr_cudnn_nvrtc(void)
{
    for (int i = 0; i < N_NVRTC; i++) {
        void *found = dlopen(nvrtc[i], RTLD_NOW | RTLD_NOLOAD);

        if (found) {
            dlclose(found);
            return nvrtc[i];
        }
    }
    return NULL;
}

/* Opens NVRTC in one folder. Sets *found if NVRTC was opened; the library remains open. */
static enum kvr_status open_nvrtc_at(const char *prefix, const char *name, bool *found)
{
    char path[4096];
    void *library;
    enum kvr_status st;

    if (snprintf(path, sizeof path, "%s%s", prefix, name) >= (int)sizeof path)
        return KVR_OK;
    st = kvr_library_open(&library, path, RTLD_NOW | RTLD_GLOBAL);
    *found = st == KVR_OK;
    return st == KVR_EUNSUPPORTED ? KVR_OK : st;
}

/* Finds the folder of the library that defines `symbol`, with a trailing slash, or "" if the folder
 * is unknown. */
static void folder_of(void *library, const char *symbol, char *folder, size_t n)
{
    void *const at = dlsym(library, symbol);
    Dl_info info;
    size_t len = 0;

    if (at && dladdr(at, &info) && info.dli_fname && strrchr(info.dli_fname, '/'))
        len = (size_t)(strrchr(info.dli_fname, '/') + 1 - info.dli_fname);
    if (len >= n)
        len = 0;
    if (len)
        memcpy(folder, info.dli_fname, len);
    folder[len] = 0;
}

/* cuDNN compiles attention kernels at run time with NVRTC. cuDNN opens NVRTC by its name, but the
 * dynamic loader does not search the folders of Python packages. This function opens NVRTC by its
 * path first, so that cuDNN gets the loaded library. */
static enum kvr_status open_nvrtc(void *library)
{
    char folder[2048], prefix[sizeof folder + 32];
    bool found = kvr_cudnn_nvrtc() != NULL;

    folder_of(library, "cudnnGetVersion", folder, sizeof folder);
    for (int i = 0; i < N_NVRTC * N_PREFIXES && !found && folder[0]; i++) {
        snprintf(prefix, sizeof prefix, "%s%s", folder, nvrtc_prefixes[i % N_PREFIXES]);
        KVR_TRY(open_nvrtc_at(prefix, nvrtc[i / N_PREFIXES], &found));
    }
    for (int i = 0; i < N_NVRTC && !found && !kvr_stream_emulated(); i++)
        KVR_TRY(open_nvrtc_at("", nvrtc[i], &found));
    return KVR_OK;
}

static enum kvr_status load_named_library(void **library)
{
    const char *env = getenv("KVREEL_CUDNN");

    if (env && strcmp(env, "none") == 0)
        return kvr_fail(KVR_EUNSUPPORTED, "cuDNN: disabled by KVREEL_CUDNN=none");
    if (!env || !env[0])
        return kvr_stream_emulated()
                   ? kvr_fail(KVR_EUNSUPPORTED,
                              "cuDNN: not used, since the kernels are emulated on the CPU")
                   : load_any(library);
    KVR_TRY(load_named(library, env));
    if (!kvr_stream_emulated() || dlsym(*library, "kvr_on_the_emulated_device"))
        return KVR_OK;
    kvr_cudnn_unload(library);
    return kvr_fail(
        KVR_EUNSUPPORTED,
        "cuDNN: the kernels are emulated on the CPU, but the library KVREEL_CUDNN=%s needs a GPU; "
        "unset KVREEL_CUDNN",
        env);
}

enum kvr_status kvr_cudnn_load(void **library)
{
    enum kvr_status st;

    *library = NULL;
    KVR_TRY(load_named_library(library));
    st = open_nvrtc(*library);
    if (st != KVR_OK)
        kvr_cudnn_unload(library);
    return st;
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

/* Version 9.10.2 is encoded as 91002, and a version before 9, such as 8.9.2, as 8902. */
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

/* Finds a function of the library. `function` is the address of a function pointer. It is written
 * through a void **, as the manual of dlsym() recommends. */
enum kvr_status kvr_cudnn_symbol(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    return *(void **)function
               ? KVR_OK
               : kvr_fail(KVR_EUNSUPPORTED, "cuDNN: the loaded library has no function %s", name);
}
