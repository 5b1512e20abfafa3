/* ffmpeg.c - loads FFmpeg's libraries once, by dlopen and dlsym. */
#include "harness/files/media/ffmpeg.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "harness/core/library.h"

#define SONAME(name, major) "lib" #name ".so." AV_STRINGIFY(major)

static struct kvr_ffmpeg table;
static char trouble[256]; /* reason why loading FFmpeg failed; empty: it succeeded */
static bool short_of_memory;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *open_library(const char *soname)
{
    void *library;
    enum kvr_status st;

    if (trouble[0])
        return NULL;
    st = kvr_library_open(&library, soname, RTLD_LAZY | RTLD_LOCAL);
    if (st != KVR_OK)
        snprintf(trouble, sizeof trouble, "%s", kvr_error());
    short_of_memory = st == KVR_ENOMEM;
    return library;
}

static void *find(void *library, const char *name)
{
    void *at = trouble[0] ? NULL : dlsym(library, name);

    if (!at && !trouble[0])
        snprintf(trouble, sizeof trouble, "%s", dlerror());
    return at;
}

/* Loads FFmpeg's libraries and looks up their functions. With libavformat, the dynamic loader also
 * loads its dependencies libavcodec and libavutil. The following dlopen() calls return those
 * copies. */
static void fill(void)
{
    void *avformat = open_library(SONAME(avformat, LIBAVFORMAT_VERSION_MAJOR));
    void *avcodec = open_library(SONAME(avcodec, LIBAVCODEC_VERSION_MAJOR));
    void *avutil = open_library(SONAME(avutil, LIBAVUTIL_VERSION_MAJOR));
    void *swscale = open_library(SONAME(swscale, LIBSWSCALE_VERSION_MAJOR));

#define FFMPEG(library, name) table.name = (__typeof__(name) *)find(library, #name);
#include "harness/files/media/ffmpeg.def"
#undef FFMPEG
}

enum kvr_status kvr_ffmpeg_open(const struct kvr_ffmpeg **out)
{
    pthread_once(&once, fill);
    if (trouble[0])
        return kvr_fail(short_of_memory ? KVR_ENOMEM : KVR_EIO, "FFmpeg: %s", trouble);
    *out = &table;
    return KVR_OK;
}
