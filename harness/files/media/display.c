/* display.c - reads the display matrix with any version of FFmpeg's headers. */
#include "harness/files/media/display.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N_MATRIX = 9, ONE = 1 << 16 };

static const AVPacketSideData *side_data(const AVStream *s, int *n)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 100)
    *n = s->codecpar->nb_coded_side_data;
    return s->codecpar->coded_side_data;
#else
    *n = s->nb_side_data;
    return s->side_data;
#endif
}

/* Converts a 16.16 fixed-point number to -1, 0 or 1; returns 2 for all other numbers. */
static int unit(int32_t x)
{
    return x == 0 ? 0 : x == ONE ? 1 : x == -ONE ? -1 : 2;
}

/* Copies the display matrix of the stream or, if the stream has none, of the frame to m. Returns
 * false if neither has one. */
static bool find_matrix(const AVStream *stream, const AVFrame *frame, int32_t m[N_MATRIX])
{
    const size_t size = N_MATRIX * sizeof *m;
    int n;
    const AVPacketSideData *side = side_data(stream, &n);

    for (int i = 0; i < n; i++)
        if (side[i].type == AV_PKT_DATA_DISPLAYMATRIX && side[i].size >= size) {
            memcpy(m, side[i].data, size);
            return true;
        }
    for (int i = 0; i < frame->nb_side_data; i++)
        if (frame->side_data[i]->type == AV_FRAME_DATA_DISPLAYMATRIX &&
            frame->side_data[i]->size >= size) {
            memcpy(m, frame->side_data[i]->data, size);
            return true;
        }
    return false;
}

enum kvr_status kvr_display_of(struct kvr_display *out, const AVStream *stream,
                               const AVFrame *frame, const char *path)
{
    int32_t m[N_MATRIX];

    *out = (struct kvr_display){ .xx = 1, .yy = 1 };
    if (!find_matrix(stream, frame, m))
        return KVR_OK;
    /* m is a 3 x 3 matrix M, stored row by row. The stored pixel (x, y) is displayed at (x', y'),
     * where (x', y', 1) = (x, y, 1) M. */
    *out = (struct kvr_display){ unit(m[0]), unit(m[3]), unit(m[1]), unit(m[4]) };
    if (abs(out->xx) + abs(out->xy) == 1 && abs(out->yx) + abs(out->yy) == 1 &&
        abs(out->xx) == abs(out->yy))
        return KVR_OK;
    return kvr_fail(
        KVR_EUNSUPPORTED,
        "%s: the video's display matrix %g %g %g %g is not a rotation by a multiple of 90 "
        "degrees: rotate the frames first (ffmpeg -i FILE OUT)",
        path, m[0] / (double)ONE, m[1] / (double)ONE, m[3] / (double)ONE, m[4] / (double)ONE);
}

static void rotate(const struct kvr_display *d, const uint8_t *from, int w, int h, uint8_t *to)
{
    const int out_w = d->xx ? w : h;
    const int x0 = (d->xx < 0 ? w - 1 : 0) + (d->xy < 0 ? h - 1 : 0);
    const int y0 = (d->yx < 0 ? w - 1 : 0) + (d->yy < 0 ? h - 1 : 0);

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const int sx = x0 + d->xx * x + d->xy * y, sy = y0 + d->yx * x + d->yy * y;

            memcpy(to + 3 * ((size_t)sy * (size_t)out_w + (size_t)sx),
                   from + 3 * ((size_t)y * (size_t)w + (size_t)x), 3);
        }
}

enum kvr_status kvr_display_apply(const struct kvr_display *d, struct kvr_video *v)
{
    struct kvr_frames *f = &v->frames;
    const int w = f->width, h = f->height;
    const size_t bytes = 3 * (size_t)w * (size_t)h;
    uint8_t *stored;

    if (d->xx == 1 && d->yy == 1)
        return KVR_OK;
    stored = malloc(bytes);
    if (!stored)
        return kvr_fail(KVR_ENOMEM, "video: out of memory while allocating a frame of %dx%d pixels",
                        w, h);
    for (int i = 0; i < f->n; i++) {
        uint8_t *frame = v->pixels + (size_t)i * bytes;

        memcpy(stored, frame, bytes);
        rotate(d, stored, w, h, frame);
    }
    free(stored);
    if (!d->xx) {
        f->width = h;
        f->height = w;
        v->pixel = (struct kvr_ratio){ v->pixel.den, v->pixel.num };
    }
    return KVR_OK;
}
