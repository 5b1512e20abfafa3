/* libraries.c - versions of the libraries in use. */
#include "harness/cli/libraries.h"

#include <dnnl.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <yaml.h>

#include "harness/files/media/ffmpeg.h"

static json_t *av_version(unsigned v)
{
    return json_sprintf("%u.%u.%u", AV_VERSION_MAJOR(v), AV_VERSION_MINOR(v), AV_VERSION_MICRO(v));
}

json_t *kvr_libraries_json(void)
{
    const dnnl_version_t *dnnl = dnnl_version();
    const struct kvr_ffmpeg *ff;
    const enum kvr_status opened = kvr_ffmpeg_open(&ff);
    const bool has_ffmpeg = opened == KVR_OK;
    /* If FFmpeg could not be loaded for lack of memory, returns NULL: the version "none" would
     * claim that FFmpeg is not installed. */
    json_t *o = opened == KVR_ENOMEM ? NULL : json_object();

    json_object_set_new(o, "sqlite", json_string(sqlite3_libversion()));
    json_object_set_new(o, "onednn",
                        json_sprintf("%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch));
    json_object_set_new(o, "libavcodec",
                        has_ffmpeg ? av_version(ff->avcodec_version()) : json_string("none"));
    json_object_set_new(o, "libavformat",
                        has_ffmpeg ? av_version(ff->avformat_version()) : json_string("none"));
    json_object_set_new(o, "libyaml", json_string(yaml_get_version_string()));
    json_object_set_new(o, "jansson", json_string(jansson_version_str()));
    json_object_set_new(o, "openssl", json_string(OpenSSL_version(OPENSSL_VERSION_STRING)));
    return o;
}
