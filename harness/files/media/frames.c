/* frames.c - reads and writes raw frames in a safetensors file. */
#include "harness/files/media/frames.h"

#include "harness/core/safetensors.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kvr_video_free(struct kvr_video *v)
{
    free(v->pixels);
    memset(v, 0, sizeof *v);
}

enum kvr_status kvr_frames_write(const char *path, const struct kvr_frames *f, double fps)
{
    char text[32];
    const char *metadata[] = { "fps", text, NULL };
    struct kvr_st_item item = {
        .name = "frames",
        .t = { .data = (void *)(uintptr_t)f->rgb, /* read-only */
               .dtype = KVR_U8,
               .n_dims = 4,
               .shape = { f->n, f->height, f->width, 3 } },
    };

    if (f->n <= 0 || f->height <= 0 || f->width <= 0)
        return kvr_fail(KVR_EINVAL, "%s: there are no frames to write (%d frames of %dx%d)", path,
                        f->n, f->width, f->height);
    snprintf(text, sizeof text, "%.17g", fps);
    return kvr_st_write(path, &item, 1, metadata);
}

static enum kvr_status read_tensor(struct kvr_video *out, const struct kvr_st *f)
{
    const int64_t shape[] = { -1, -1, -1, 3 };
    const char *fps = kvr_st_metadata(f, "fps");
    struct kvr_tensor t;
    size_t n;

    KVR_TRY(kvr_st_get_shaped(f, "frames", 4, shape, &t));
    if (t.dtype != KVR_U8)
        return kvr_fail(KVR_EFORMAT, "%s: tensor 'frames' has type %s, need U8", kvr_st_path(f),
                        kvr_dtype_name(t.dtype));
    for (int i = 0; i < 3; i++)
        if (t.shape[i] < 1 || t.shape[i] > INT_MAX)
            return kvr_fail(KVR_EFORMAT, "%s: tensor 'frames' has a dimension of %lld, need 1..%d",
                            kvr_st_path(f), (long long)t.shape[i], INT_MAX);
    n = kvr_tensor_bytes(&t);
    out->pixel = (struct kvr_ratio){ 1, 1 };
    out->pixels = malloc(n);
    if (!out->pixels)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %zu bytes of frames",
                        kvr_st_path(f), n);
    memcpy(out->pixels, t.data, n);
    out->frames =
        (struct kvr_frames){ (int)t.shape[0], (int)t.shape[1], (int)t.shape[2], out->pixels };
    out->fps = fps ? strtod(fps, NULL) : 0.0;
    if (!(out->fps > 0.0 && isfinite(out->fps)))
        out->fps = 0.0;
    return KVR_OK;
}

enum kvr_status kvr_frames_read(struct kvr_video *out, const char *path)
{
    struct kvr_st *f;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_st_open(&f, path));
    st = read_tensor(out, f);
    kvr_st_close(&f);
    return st;
}
