/* mp4.c - writes H.264 in MP4, for viewing. Equal frames give equal bytes: one thread, no dates, no
 * version strings. */
#include "harness/files/media/av.h"
#include "harness/files/media/media.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/outfile.h"

enum { MAX_EXTENT = 16384 }; /* largest width and height that H.264 levels and players allow */

struct writer {
    const struct kvr_ffmpeg *ff;
    const char *path; /* for messages */
    AVFormatContext *mux;
    AVStream *stream;
    AVCodecContext *enc;
    struct SwsContext *sws;
    AVFrame *frame;
    AVPacket *pkt;
    uint8_t *big; /* one enlarged and padded frame: [enc->height, enc->width, 3] */
};

/* --- the file ----------------------------------------------------------------------------- */

/* An output file that FFmpeg accesses by descriptor, through the callbacks below. avio_open() is
 * not used, because it needs a path, and the temporary file of outfile.h is known only by its
 * descriptor. In FFmpeg 5.1, avio_open() also frees memory twice if an allocation fails. To move
 * the index to the front, the muxer opens the file again for reading. */
struct stream {
    const struct kvr_ffmpeg *ff;
    int fd;
    int64_t at;
};

static int read_some(void *ctx, uint8_t *p, int n)
{
    struct stream *s = ctx;
    ssize_t got;

    do
        got = pread(s->fd, p, (size_t)n, s->at);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 ? AVERROR(errno) : AVERROR_EOF;
    s->at += got;
    return (int)got;
}

#if LIBAVFORMAT_VERSION_MAJOR >= 61
static int write_all(void *ctx, const uint8_t *p, int n)
#else
static int write_all(void *ctx, uint8_t *p, int n)
#endif
{
    struct stream *s = ctx;

    for (int done = 0; done < n;) {
        const ssize_t put = pwrite(s->fd, p + done, (size_t)(n - done), s->at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? AVERROR(errno) : AVERROR(EIO);
        done += (int)put;
        s->at += put;
    }
    return n;
}

static int64_t seek(void *ctx, int64_t to, int whence)
{
    struct stream *s = ctx;
    const int64_t from = whence == SEEK_CUR   ? s->at
                         : whence == SEEK_SET ? 0
                                              : lseek(s->fd, 0, SEEK_END);

    if (from < 0)
        return AVERROR(errno);
    if (whence & AVSEEK_SIZE)
        return from;
    return s->at = from + to;
}

/* Allocates the FFmpeg I/O context of a file descriptor; NULL: out of memory. */
static AVIOContext *open_stream(const struct kvr_ffmpeg *ff, int fd, bool writes)
{
    enum { BUFFER = 32768 };
    struct stream *s = calloc(1, sizeof *s);
    uint8_t *buffer = s ? ff->av_malloc(BUFFER) : NULL;
    AVIOContext *io =
        buffer ? ff->avio_alloc_context(buffer, BUFFER, writes, s, read_some, write_all, seek)
               : NULL;

    if (io) {
        *s = (struct stream){ .ff = ff, .fd = fd };
        return io;
    }
    ff->av_free(buffer);
    free(s);
    return NULL;
}

/* Flushes and frees an FFmpeg I/O context. Returns its write error; 0: none. */
static int close_stream(const struct kvr_ffmpeg *ff, AVIOContext **io)
{
    int err = 0;

    if (*io) {
        if ((*io)->write_flag)
            ff->avio_flush(*io);
        err = (*io)->error;
        free((*io)->opaque);
        ff->av_free((*io)->buffer);
        ff->avio_context_free(io);
    }
    return err;
}

static int open_again(AVFormatContext *mux, AVIOContext **io, const char *url, int flags,
                      AVDictionary **options)
{
    const struct stream *s = mux->pb->opaque;

    (void)url, (void)options;
    *io = open_stream(s->ff, s->fd, flags & AVIO_FLAG_WRITE);
    return *io ? 0 : AVERROR(ENOMEM);
}

static int close_again(AVFormatContext *mux, AVIOContext *io)
{
    const struct stream *s = mux->pb->opaque;

    return close_stream(s->ff, &io);
}

/* --- the writer --------------------------------------------------------------------------- */

/* Returns whether malloc can allocate 64 KiB from the heap (blocks of this size are below its mmap
 * threshold). The check is needed because FFmpeg aborts if it cannot allocate an encoder's default
 * options. */
static bool has_room(void)
{
    void *volatile probe = malloc(64 * 1024); /* volatile: compilers remove unused malloc() calls */
    const bool yes = probe != NULL;

    free(probe);
    return yes;
}

static enum kvr_status open_encoder(struct writer *w, int width, int height, AVRational fps)
{
    const AVCodec *codec = w->ff->avcodec_find_encoder_by_name("libx264");
    AVDictionary *opts = NULL;
    int err;

    if (!codec)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: this libavcodec has no H.264 encoder: install an FFmpeg with libx264",
                        w->path);
    w->enc = has_room() ? w->ff->avcodec_alloc_context3(codec) : NULL;
    if (!w->enc)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the encoder", w->path);
    w->enc->width = width;
    w->enc->height = height;
    w->enc->pix_fmt = AV_PIX_FMT_YUV420P;
    w->enc->framerate = fps;
    w->enc->time_base = av_inv_q(fps);
    w->enc->gop_size = (int)fmax(1.0, round(av_q2d(fps) / 2.0));
    w->enc->thread_count = 1;
    w->enc->color_range = AVCOL_RANGE_MPEG;
    w->enc->colorspace = AVCOL_SPC_BT709;
    w->enc->color_primaries = AVCOL_PRI_BT709;
    w->enc->color_trc = AVCOL_TRC_BT709;
    w->enc->flags |= AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_GLOBAL_HEADER;
    /* Compared with "medium", the preset "superfast" needs a third of the time, has a PSNR lower by
     * 0.5 dB, and writes 5 % more bytes. */
    w->ff->av_dict_set(&opts, "preset", "superfast", 0);
    w->ff->av_dict_set(&opts, "crf", "16", 0);
    /* With mbtree enabled, x264 build 164 wrote different bytes in different runs on the same small
     * frames. */
    w->ff->av_dict_set(&opts, "mbtree", "0", 0);
    err = w->ff->avcodec_open2(w->enc, codec, &opts);
    w->ff->av_dict_free(&opts);
    return err < 0 ? kvr_av_fail(w->path, "cannot open the H.264 encoder", err) : KVR_OK;
}

static enum kvr_status open_scaler(struct writer *w)
{
    const int *bt709 = w->ff->sws_getCoefficients(SWS_CS_ITU709);
    int width = w->enc->width, height = w->enc->height;
    int err;

    w->sws = w->ff->sws_getContext(
        width, height, AV_PIX_FMT_RGB24, width, height, AV_PIX_FMT_YUV420P,
        SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP | SWS_BITEXACT, NULL, NULL, NULL);
    w->frame = w->ff->av_frame_alloc();
    w->pkt = w->ff->av_packet_alloc();
    /* The frame is padded, because vector loads of libswscale read past the last pixel. */
    w->big = malloc((size_t)width * (size_t)height * 3 + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!w->sws || !w->frame || !w->pkt || !w->big)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating a frame of %dx%d pixels",
                        w->path, width, height);
    w->ff->sws_setColorspaceDetails(w->sws, bt709, 1, bt709, 0, 0, 1 << 16, 1 << 16);
    w->frame->format = w->enc->pix_fmt;
    w->frame->width = width;
    w->frame->height = height;
    err = w->ff->av_frame_get_buffer(w->frame, 0);
    return err < 0 ? kvr_av_fail(w->path, "cannot allocate a frame", err) : KVR_OK;
}

static enum kvr_status open_muxer(struct writer *w, int fd)
{
    AVDictionary *opts = NULL;
    int err = w->ff->avformat_alloc_output_context2(&w->mux, NULL, "mp4", NULL);

    if (err >= 0) {
        w->mux->pb = open_stream(w->ff, fd, true);
        err = w->mux->pb ? 0 : AVERROR(ENOMEM);
    }
    if (err < 0)
        return kvr_av_fail(w->path, "cannot open for writing", err);
    w->mux->io_open = open_again;
    w->mux->io_close2 = close_again;
    w->mux->flags |= AVFMT_FLAG_BITEXACT | AVFMT_FLAG_CUSTOM_IO;
    w->stream = w->ff->avformat_new_stream(w->mux, NULL);
    if (!w->stream)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the stream", w->path);
    w->stream->time_base = w->enc->time_base;
    w->stream->avg_frame_rate = w->enc->framerate;
    err = w->ff->avcodec_parameters_from_context(w->stream->codecpar, w->enc);
    if (err >= 0) {
        w->ff->av_dict_set(&opts, "movflags", "+faststart", 0);
        err = w->ff->avformat_write_header(w->mux, &opts);
        w->ff->av_dict_free(&opts);
    }
    return err < 0 ? kvr_av_fail(w->path, "cannot write the header", err) : KVR_OK;
}

/* Sends a frame (NULL: the end) to the encoder and writes the resulting packets. */
static enum kvr_status push(struct writer *w, const AVFrame *frame)
{
    int err = w->ff->avcodec_send_frame(w->enc, frame);

    while (err >= 0) {
        err = w->ff->avcodec_receive_packet(w->enc, w->pkt);
        if (err == AVERROR(EAGAIN) || err == AVERROR_EOF)
            return KVR_OK;
        if (err < 0)
            break;
        w->pkt->duration = 1; /* one frame; the encoder does not set the last packet's duration */
        w->ff->av_packet_rescale_ts(w->pkt, w->enc->time_base, w->stream->time_base);
        w->pkt->stream_index = w->stream->index;
        err = w->ff->av_interleaved_write_frame(w->mux, w->pkt);
    }
    return kvr_av_fail(w->path, "cannot write a frame", err);
}

/* Enlarges a frame by repeating each pixel `scale` times along both axes. Padding repeats the last
 * column and row. */
static void enlarge(const struct writer *w, const uint8_t *rgb, int height, int width, int scale)
{
    for (int y = 0; y < w->enc->height; y++) {
        int sy = y / scale < height ? y / scale : height - 1;

        for (int x = 0; x < w->enc->width; x++) {
            int sx = x / scale < width ? x / scale : width - 1;

            memcpy(w->big + ((size_t)y * (size_t)w->enc->width + (size_t)x) * 3,
                   rgb + ((size_t)sy * (size_t)width + (size_t)sx) * 3, 3);
        }
    }
}

static enum kvr_status write_frames(struct writer *w, const struct kvr_frames *f, int scale)
{
    const uint8_t *planes[1] = { w->big };
    const int strides[1] = { 3 * w->enc->width };
    int err;

    for (int i = 0; i < f->n; i++) {
        enlarge(w, f->rgb + (size_t)i * (size_t)f->height * (size_t)f->width * 3, f->height,
                f->width, scale);
        err = w->ff->av_frame_make_writable(w->frame);
        if (err < 0)
            return kvr_av_fail(w->path, "cannot allocate a frame", err);
        w->ff->sws_scale(w->sws, planes, strides, 0, w->enc->height, w->frame->data,
                         w->frame->linesize);
        w->frame->pts = i;
        KVR_TRY(push(w, w->frame));
    }
    KVR_TRY(push(w, NULL));
    err = w->ff->av_write_trailer(w->mux);
    if (err >= 0)
        err = close_stream(w->ff, &w->mux->pb);
    return err < 0 ? kvr_av_fail(w->path, "cannot finish the file", err) : KVR_OK;
}

static void close_writer(struct writer *w)
{
    if (w->mux)
        close_stream(w->ff, &w->mux->pb);
    w->ff->avformat_free_context(w->mux);
    w->ff->avcodec_free_context(&w->enc);
    w->ff->sws_freeContext(w->sws);
    w->ff->av_frame_free(&w->frame);
    w->ff->av_packet_free(&w->pkt);
    free(w->big);
}

enum kvr_status kvr_mp4_write(const char *path, const struct kvr_frames *f, double fps, int scale)
{
    struct writer w = { .path = path };
    struct kvr_out *out;
    enum kvr_status st;

    KVR_TRY(kvr_av_begin(&w.ff));
    if (f->n <= 0 || f->height <= 0 || f->width <= 0)
        return kvr_fail(KVR_EINVAL, "%s: there are no frames to write (%d frames of %dx%d)", path,
                        f->n, f->width, f->height);
    if (!(fps > 0.0 && fps <= 1000.0))
        return kvr_fail(KVR_EINVAL,
                        "%s: the frame rate is %g, need above 0 and at most 1000 frames per second",
                        path, fps);
    if (scale < 1 || f->width > MAX_EXTENT / scale || f->height > MAX_EXTENT / scale)
        return kvr_fail(KVR_EINVAL,
                        "%s: frames of %dx%d enlarged by a factor of %d are too large, need at "
                        "most %d pixels a side",
                        path, f->width, f->height, scale, MAX_EXTENT);
    KVR_TRY(kvr_out_open(&out, path));
    /* 4:2:0 chroma has half the resolution, so width and height are rounded up to even. */
    st = open_encoder(&w, (f->width * scale + 1) & ~1, (f->height * scale + 1) & ~1,
                      w.ff->av_d2q(fps, 100000));
    if (st == KVR_OK)
        st = open_scaler(&w);
    if (st == KVR_OK)
        st = open_muxer(&w, kvr_out_fd(out));
    if (st == KVR_OK)
        st = write_frames(&w, f, scale);
    close_writer(&w);
    if (st == KVR_OK)
        return kvr_out_commit(&out);
    kvr_out_drop(&out);
    return st;
}
