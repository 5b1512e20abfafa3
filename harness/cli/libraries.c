/* libraries.c - versions of what is linked, and the processor's name. */
#include "harness/cli/libraries.h"

#include <dnnl.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

static json_t *av_version(unsigned v)
{
    return json_sprintf("%u.%u.%u", AV_VERSION_MAJOR(v), AV_VERSION_MINOR(v), AV_VERSION_MICRO(v));
}

json_t *kvr_libraries_json(void)
{
    const dnnl_version_t *dnnl = dnnl_version();
    json_t *o = json_object();

    json_object_set_new(o, "sqlite", json_string(sqlite3_libversion()));
    json_object_set_new(o, "onednn",
                        json_sprintf("%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch));
    json_object_set_new(o, "libavcodec", av_version(avcodec_version()));
    json_object_set_new(o, "libavformat", av_version(avformat_version()));
    json_object_set_new(o, "libyaml", json_string(yaml_get_version_string()));
    json_object_set_new(o, "jansson", json_string(jansson_version_str()));
    json_object_set_new(o, "openssl", json_string(OpenSSL_version(OPENSSL_VERSION_STRING)));
    return o;
}

const char *kvr_cpu_name(char *buf, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];

    snprintf(buf, n, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[1 + strcspn(colon + 1, "\n")] = '\0';
        snprintf(buf, n, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (f)
        fclose(f);
    return buf;
}
