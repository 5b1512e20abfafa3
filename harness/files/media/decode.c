/* decode.c - demuxes, decodes, converts to RGB24, and detects missing frames. */
#include "harness/files/media/decode.h"

#include "harness/core/infile.h"
#include "harness/files/media/aperture.h"
#include "harness/files/media/av.h"
#include "harness/files/media/crop.h"
#include "harness/files/media/display.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct kvr_ffmpeg *ff;
    const char *path; /* for messages */
    AVFormatContext *demux;
    AVStream *stream;
    AVCodecContext *dec;
    struct SwsContext *sws; /* converts frames in the first frame's pixel format and colour */
    int format, color_range, colorspace; /* of the first frame */
    AVFrame *frame;
    AVPacket *pkt;
    struct kvr_video *out;
    struct kvr_display shown;
    struct kvr_crop crop;
    int capacity; /* capacity of out->pixels, in frames */
    int n_packets;
};

static enum kvr_status open_file(struct reader *r)
{
    AVDictionary *opts = NULL;
    int err = AVERROR(ENOMEM);
    char *url;

    KVR_TRY(kvr_infile_check(r->path));
    url = kvr_av_url(r->path);
    /* Only local files may be opened, so that a playlist given as a video cannot access other
     * hosts. */
    r->ff->av_dict_set(&opts, "protocol_whitelist", "file", 0);
    if (url)
        err = r->ff->avformat_open_input(&r->demux, url, NULL, &opts);
    free(url);
    r->ff->av_dict_free(&opts);
    if (err < 0)
        return kvr_av_fail(r->path, "cannot open as a video", err);
    err = r->ff->avformat_find_stream_info(r->demux, NULL);
    if (err < 0)
        return kvr_av_fail(r->path, "cannot read as a video", err);
    return KVR_OK;
}

/* Reads the crop that the container stores for the decoded video stream to r->crop. For containers
 * other than Matroska and MP4, r->crop stays zero. */
static enum kvr_status read_crop(struct reader *r)
{
    const bool matroska = strstr(r->demux->iformat->name, "matroska") != NULL;
    int nth = 0;
    enum kvr_status st;
    FILE *f;

    if (!matroska && !strstr(r->demux->iformat->name, "mp4"))
        return KVR_OK;
    for (int i = 0; i < r->stream->index; i++) {
        const AVStream *s = r->demux->streams[i];

        nth += s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
               !(s->disposition & AV_DISPOSITION_ATTACHED_PIC);
    }
    KVR_TRY(kvr_infile_open(&f, r->path));
    st = (matroska ? kvr_crop_read : kvr_aperture_read)(&r->crop, f, nth, r->path);
    fclose(f);
    return st;
}

static enum kvr_status open_decoder(struct reader *r)
{
    const AVCodec *codec;
    int i = r->ff->av_find_best_stream(r->demux, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    int err;

    if (i < 0)
        return kvr_fail(KVR_EFORMAT, "%s: the file has no video stream", r->path);
    codec = r->ff->avcodec_find_decoder(r->demux->streams[i]->codecpar->codec_id);
    if (!codec)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: this libavcodec cannot decode the video stream's codec (%s)", r->path,
                        r->ff->avcodec_get_name(r->demux->streams[i]->codecpar->codec_id));
    r->stream = r->demux->streams[i];
    r->dec = r->ff->avcodec_alloc_context3(codec);
    r->frame = r->ff->av_frame_alloc();
    r->pkt = r->ff->av_packet_alloc();
    if (!r->dec || !r->frame || !r->pkt)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the decoder", r->path);
    err = r->ff->avcodec_parameters_to_context(r->dec, r->stream->codecpar);
    if (err >= 0) {
        r->dec->thread_count = 1;
        r->dec->err_recognition |= AV_EF_EXPLODE; /* damaged data fails; no error concealment */
        r->dec->pkt_timebase = r->stream->time_base;
        err = r->ff->avcodec_open2(r->dec, codec, NULL);
    }
    return err < 0 ? kvr_av_fail(r->path, "cannot open the decoder", err) : KVR_OK;
}

/* Returns the pixel aspect ratio. As in players, the container's value takes precedence over the
 * video stream's. */
static struct kvr_ratio pixel_of(const struct reader *r)
{
    const AVRational file = r->stream->sample_aspect_ratio, own = r->frame->sample_aspect_ratio;
    const AVRational x = file.num > 0 && file.den > 0 ? file : own;

    return x.num > 0 && x.den > 0 ? (struct kvr_ratio){ x.num, x.den } : (struct kvr_ratio){ 1, 1 };
}

/* Untagged video is treated as BT.601 limited range, as players do for small sizes. */
static enum kvr_status open_scaler(struct reader *r)
{
    const AVFrame *f = r->frame;
    int space = f->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : (int)f->colorspace;
    const int *coefficients = r->ff->sws_getCoefficients(space);

    r->sws = r->ff->sws_getContext(
        f->width, f->height, f->format, f->width, f->height, AV_PIX_FMT_RGB24,
        SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT, NULL, NULL, NULL);
    if (!r->sws)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: FFmpeg cannot convert the video's pixel format (AVPixelFormat %d) to RGB", r->path,
            f->format);
    r->ff->sws_setColorspaceDetails(r->sws, coefficients, f->color_range == AVCOL_RANGE_JPEG,
                                    r->ff->sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16,
                                    1 << 16);
    r->format = f->format;
    r->color_range = (int)f->color_range;
    r->colorspace = (int)f->colorspace;
    KVR_TRY(kvr_display_of(&r->shown, r->stream, f, r->path));
    r->out->pixel = pixel_of(r);
    r->out->frames.width = f->width;
    r->out->frames.height = f->height;
    return KVR_OK;
}

static enum kvr_status grow(struct reader *r, size_t frame_bytes)
{
    int capacity = r->capacity ? 2 * r->capacity : 64;
    uint8_t *p = realloc(r->out->pixels, (size_t)capacity * frame_bytes);

    if (!p)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d frames of %zu bytes",
                        r->path, capacity, frame_bytes);
    r->out->pixels = p;
    r->capacity = capacity;
    return KVR_OK;
}

/* Fails if the frame has another size, pixel format or colour than the first frame. FFmpeg's
 * decoders can change them within a stream: each JPEG picture has its own chroma subsampling. */
static enum kvr_status check_same(const struct reader *r)
{
    const struct kvr_frames *out = &r->out->frames;
    const AVFrame *f = r->frame;

    if (f->width != out->width || f->height != out->height)
        return kvr_fail(KVR_EFORMAT, "%s: frame %d is %dx%d, but earlier frames are %dx%d", r->path,
                        out->n, f->width, f->height, out->width, out->height);
    if (f->format != r->format)
        return kvr_fail(KVR_EFORMAT,
                        "%s: frame %d has another pixel format (AVPixelFormat %d) than earlier "
                        "frames (AVPixelFormat %d); encode all frames in one format",
                        r->path, out->n, f->format, r->format);
    if ((int)f->color_range != r->color_range || (int)f->colorspace != r->colorspace)
        return kvr_fail(KVR_EFORMAT,
                        "%s: frame %d has another colour range or colour matrix (AVColorRange %d, "
                        "AVColorSpace %d) than earlier frames (%d, %d); encode all frames alike",
                        r->path, out->n, (int)f->color_range, (int)f->colorspace, r->color_range,
                        r->colorspace);
    return KVR_OK;
}

static enum kvr_status keep_frame(struct reader *r)
{
    struct kvr_frames *out = &r->out->frames;
    const AVFrame *f = r->frame;
    size_t frame_bytes;
    uint8_t *planes[1];
    int strides[1];

    if (!r->sws)
        KVR_TRY(open_scaler(r));
    KVR_TRY(check_same(r));
    frame_bytes = (size_t)f->width * (size_t)f->height * 3;
    if (out->n == r->capacity)
        KVR_TRY(grow(r, frame_bytes));
    planes[0] = r->out->pixels + (size_t)out->n * frame_bytes;
    strides[0] = 3 * f->width;
    if (r->ff->sws_scale(r->sws, (const uint8_t *const *)f->data, f->linesize, 0, f->height, planes,
                         strides) != f->height)
        return kvr_fail(KVR_EFORMAT, "%s: FFmpeg cannot convert frame %d to RGB", r->path, out->n);
    out->n++;
    return KVR_OK;
}

/* Sends a packet (NULL: the end) to the decoder and stores the decoded frames. */
static enum kvr_status feed(struct reader *r, const AVPacket *pkt)
{
    int err = r->ff->avcodec_send_packet(r->dec, pkt);

    while (err >= 0) {
        err = r->ff->avcodec_receive_frame(r->dec, r->frame);
        if (err == AVERROR(EAGAIN) || err == AVERROR_EOF)
            return KVR_OK;
        if (err >= 0)
            KVR_TRY(keep_frame(r));
        r->ff->av_frame_unref(r->frame);
    }
    return kvr_av_fail(r->path, "damaged or cut short", err);
}

static enum kvr_status read_all(struct reader *r)
{
    int err, expected;

    while ((err = r->ff->av_read_frame(r->demux, r->pkt)) >= 0) {
        enum kvr_status st = KVR_OK;

        if (r->pkt->stream_index == r->stream->index) {
            r->n_packets++;
            if (r->pkt->flags & AV_PKT_FLAG_CORRUPT)
                st = kvr_fail(KVR_EFORMAT, "%s: the file ends within frame %d (truncated?)",
                              r->path, r->n_packets - 1);
            else
                st = feed(r, r->pkt);
        }
        r->ff->av_packet_unref(r->pkt);
        KVR_TRY(st);
    }
    /* The index of an MP4 file has one entry per packet, so a truncated file has fewer packets than
     * entries. */
    expected = r->ff->avformat_index_get_entries_count(r->stream);
    if (r->n_packets < expected)
        return kvr_fail(KVR_EFORMAT, "%s: the file ends after %d of %d frames (truncated?)",
                        r->path, r->n_packets, expected);
    if (err != AVERROR_EOF)
        return kvr_av_fail(r->path, "damaged or cut short", err);
    KVR_TRY(feed(r, NULL));
    if (r->out->frames.n == 0)
        return kvr_fail(KVR_EFORMAT, "%s: the video stream contains no frame", r->path);
    return KVR_OK;
}

enum kvr_status kvr_decode(struct kvr_video *out, const char *path)
{
    struct reader r = { .path = path, .out = out };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_av_begin(&r.ff));
    st = open_file(&r);
    if (st == KVR_OK)
        st = open_decoder(&r);
    if (st == KVR_OK)
        st = read_crop(&r);
    if (st == KVR_OK)
        st = read_all(&r);
    if (st == KVR_OK)
        st = kvr_crop_apply(&r.crop, out, path);
    if (st == KVR_OK)
        st = kvr_display_apply(&r.shown, out);
    if (st == KVR_OK) {
        out->frames.rgb = out->pixels;
        snprintf(out->codec, sizeof out->codec, "%s",
                 r.ff->avcodec_get_name(r.stream->codecpar->codec_id));
        out->fps = av_q2d(r.ff->av_guess_frame_rate(r.demux, r.stream, NULL));
    } else {
        kvr_video_free(out);
    }
    r.ff->avformat_close_input(&r.demux);
    r.ff->avcodec_free_context(&r.dec);
    r.ff->sws_freeContext(r.sws);
    r.ff->av_frame_free(&r.frame);
    r.ff->av_packet_free(&r.pkt);
    return st;
}
