/* aperture.c - reads the clean aperture of a video track in an ISO base media file
 * (ISO/IEC 14496-12), by walking the boxes to the track's sample entry. */
#include "harness/files/media/aperture.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define TYPE(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))
enum { N_CLAP = 8, MAX_BOXES = 1 << 20, MAX_DEPTH = 8, MAX_TERM = 1 << 20 };
enum { ENTRIES_AT = 8, HANDLER_AT = 8, SIZE_AT = 24, ENTRY_BYTES = 78 };

struct walk {
    FILE *f;
    int left; /* number of boxes that may still be read */
    int nth;  /* number of video tracks before the requested track */
    bool found, is_video, has_clap;
    int width, height;
    int32_t clap[N_CLAP];
};

struct box {
    uint32_t type;
    int64_t body, end;
};

static bool read_at(FILE *f, int64_t at, uint8_t *to, size_t n)
{
    return fseeko(f, (off_t)at, SEEK_SET) == 0 && fread(to, 1, n, f) == n;
}

static uint32_t u32(const uint8_t *p)
{
    return TYPE(p[0], p[1], p[2], p[3]);
}

/* Reads the header of the box at `at`, which ends at `end` or before. */
static bool box_at(struct walk *w, int64_t at, int64_t end, struct box *b)
{
    uint8_t head[16];
    uint64_t size;

    if (end - at < 8 || w->left-- <= 0 || !read_at(w->f, at, head, 8))
        return false;
    size = u32(head);
    b->type = u32(head + 4);
    b->body = at + 8;
    if (size == 1) {
        if (end - at < 16 || !read_at(w->f, at, head, 16))
            return false;
        size = (uint64_t)u32(head + 8) << 32 | u32(head + 12);
        b->body = at + 16;
    }
    if (size == 0)
        size = (uint64_t)(end - at);
    if (size < (uint64_t)(b->body - at) || size > (uint64_t)(end - at))
        return false;
    b->end = at + (int64_t)size;
    return true;
}

static void read_entry(struct walk *w, int64_t at, int64_t end)
{
    uint8_t bytes[4 * N_CLAP];
    struct box entry, b;

    if (!box_at(w, at, end, &entry) || entry.end - entry.body < ENTRY_BYTES ||
        !read_at(w->f, entry.body + SIZE_AT, bytes, 4))
        return;
    w->width = bytes[0] << 8 | bytes[1];
    w->height = bytes[2] << 8 | bytes[3];
    for (at = entry.body + ENTRY_BYTES; box_at(w, at, entry.end, &b); at = b.end)
        if (b.type == TYPE('c', 'l', 'a', 'p') && b.end - b.body >= 4 * N_CLAP &&
            read_at(w->f, b.body, bytes, sizeof bytes)) {
            for (int i = 0; i < N_CLAP; i++)
                w->clap[i] = (int32_t)u32(bytes + 4 * i);
            w->has_clap = true;
        }
}

static void walk_boxes(struct walk *w, int64_t at, int64_t end, int depth)
{
    uint8_t handler[4];
    struct box b;

    for (; !w->found && box_at(w, at, end, &b); at = b.end)
        switch (b.type) {
        case TYPE('t', 'r', 'a', 'k'):
            w->is_video = w->has_clap = false;
            /* fallthrough */
        case TYPE('m', 'o', 'o', 'v'):
        case TYPE('m', 'd', 'i', 'a'):
        case TYPE('m', 'i', 'n', 'f'):
        case TYPE('s', 't', 'b', 'l'):
            if (depth < MAX_DEPTH)
                walk_boxes(w, b.body, b.end, depth + 1);
            if (b.type == TYPE('t', 'r', 'a', 'k') && w->is_video)
                w->found = w->nth-- == 0;
            break;
        case TYPE('h', 'd', 'l', 'r'):
            if (read_at(w->f, b.body + HANDLER_AT, handler, sizeof handler) &&
                u32(handler) == TYPE('v', 'i', 'd', 'e'))
                w->is_video = true;
            break;
        case TYPE('s', 't', 's', 'd'):
            read_entry(w, b.body + ENTRIES_AT, b.end);
            break;
        default:
            break;
        }
}

/* Computes the pixels that a clean aperture removes before and after it along one axis of `extent`
 * pixels. `size` and `offset` are fractions in pixels: the aperture's extent, and the distance of
 * its centre from the picture's. Returns false if the result is not a whole number of pixels. */
static bool margins(int extent, const int32_t size[2], const int32_t offset[2], int *before,
                    int *after)
{
    int64_t num, den;

    for (int i = 0; i < 2; i++)
        if (size[i] < 1 || size[i] > MAX_TERM || offset[i] < (i ? 1 : -MAX_TERM) ||
            offset[i] > MAX_TERM)
            return false;
    num = 2 * (int64_t)offset[0] * size[1] + ((int64_t)extent * size[1] - size[0]) * offset[1];
    den = 2 * (int64_t)size[1] * offset[1];
    if (size[0] % size[1] || num % den)
        return false;
    *before = (int)(num / den);
    *after = extent - size[0] / size[1] - *before;
    return *before >= 0 && *after >= 0;
}

enum kvr_status kvr_aperture_read(struct kvr_crop *out, FILE *f, int nth, const char *path)
{
    struct walk w = { .f = f, .left = MAX_BOXES, .nth = nth };
    const int32_t *c = w.clap;

    memset(out, 0, sizeof *out);
    out->display_unit = KVR_CROP_UNIT_UNKNOWN; /* keeps the pixel aspect ratio (crop.h) */
    if (fseeko(f, 0, SEEK_END) == 0)
        walk_boxes(&w, 0, (int64_t)ftello(f), 0);
    if (!w.found || !w.has_clap)
        return KVR_OK;
    if (margins(w.width, c, c + 4, &out->left, &out->right) &&
        margins(w.height, c + 2, c + 6, &out->top, &out->bottom))
        return KVR_OK;
    *out = (struct kvr_crop){ .display_unit = KVR_CROP_UNIT_UNKNOWN };
    return kvr_fail(
        KVR_EUNSUPPORTED,
        "%s: the clean aperture of %" PRId32 "/%" PRId32 " x %" PRId32 "/%" PRId32
        " pixels with offset (%" PRId32 "/%" PRId32 ", %" PRId32 "/%" PRId32
        ") from the centre, does not select whole pixels of the %dx%d frame: crop the video first "
        "(ffmpeg -i FILE -vf crop=... OUT)",
        path, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], w.width, w.height);
}
