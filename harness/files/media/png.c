/* png.c - writes one image with FFmpeg's encoder. */
#include "harness/core/outfile.h"
#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

#include <string.h>

static enum kvr_status encode(const struct kvr_ffmpeg *ff, const char *path, const uint8_t *rgb,
                              AVCodecContext *ctx, AVFrame *frame, AVPacket *pkt)
{
    int err = ff->avcodec_open2(ctx, NULL, NULL);

    if (err < 0)
        return kvr_av_fail(path, "cannot open the PNG encoder", err);
    frame->format = ctx->pix_fmt;
    frame->width = ctx->width;
    frame->height = ctx->height;
    err = ff->av_frame_get_buffer(frame, 0);
    if (err < 0)
        return kvr_av_fail(path, "cannot allocate a frame", err);
    for (int y = 0; y < ctx->height; y++)
        memcpy(frame->data[0] + (size_t)y * (size_t)frame->linesize[0],
               rgb + (size_t)y * (size_t)ctx->width * 3, (size_t)ctx->width * 3);
    err = ff->avcodec_send_frame(ctx, frame);
    if (err >= 0)
        err = ff->avcodec_receive_packet(ctx, pkt);
    if (err < 0)
        return kvr_av_fail(path, "cannot encode the contact sheet as PNG", err);
    return kvr_out_save(path, pkt->data, (size_t)pkt->size);
}

enum kvr_status kvr_png_write(const char *path, const uint8_t *rgb, int height, int width)
{
    const struct kvr_ffmpeg *ff;
    const AVCodec *codec;
    AVCodecContext *ctx = NULL;
    AVFrame *frame = NULL;
    AVPacket *pkt = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_av_begin(&ff));
    if (height <= 0 || width <= 0)
        return kvr_fail(KVR_EINVAL, "%s: the picture has %dx%d pixels, need at least 1x1", path,
                        width, height);
    codec = ff->avcodec_find_encoder(AV_CODEC_ID_PNG);
    if (!codec)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: this libavcodec has no PNG encoder", path);
    ctx = ff->avcodec_alloc_context3(codec);
    frame = ff->av_frame_alloc();
    pkt = ff->av_packet_alloc();
    if (ctx && frame && pkt) {
        ctx->width = width;
        ctx->height = height;
        ctx->pix_fmt = AV_PIX_FMT_RGB24;
        ctx->time_base = (AVRational){ 1, 1 };
        ctx->thread_count = 1;
        ctx->flags |= AV_CODEC_FLAG_BITEXACT;
        st = encode(ff, path, rgb, ctx, frame, pkt);
    } else {
        st = kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the PNG encoder", path);
    }
    ff->av_packet_free(&pkt);
    ff->av_frame_free(&frame);
    ff->avcodec_free_context(&ctx);
    return st;
}
