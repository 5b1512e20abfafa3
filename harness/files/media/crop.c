/* crop.c - reads the crop of one video track from the elements of a Matroska file (RFC 9559, RFC
 * 8794).
 */
#include "harness/files/media/crop.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum {
    ID_SEGMENT = 0x18538067,
    ID_CLUSTER = 0x1f43b675,
    ID_TRACKS = 0x1654ae6b,
    ID_TRACK_ENTRY = 0xae,
    ID_TRACK_TYPE = 0x83,
    ID_VIDEO = 0xe0,
    ID_CROP_BOTTOM = 0x54aa,
    ID_CROP_TOP = 0x54bb,
    ID_CROP_LEFT = 0x54cc,
    ID_CROP_RIGHT = 0x54dd,
    ID_DISPLAY_WIDTH = 0x54b0,
    ID_DISPLAY_HEIGHT = 0x54ba,
    ID_DISPLAY_UNIT = 0x54b2
};
enum { TYPE_VIDEO = 1, MAX_ELEMENTS = 1 << 20 };

struct element {
    uint64_t id;
    int64_t body, end; /* file offsets of the data; end is INT64_MAX if unknown */
};

struct scan {
    FILE *f;
    int64_t at;
    int left; /* number of elements that may still be read */
};

/* Reads a variable-length integer (EBML VINT) of up to `longest` bytes. An element ID includes the
 * VINT's length marker; other integers do not. */
static bool number(struct scan *s, int longest, bool is_id, uint64_t *x, bool *all_ones)
{
    const int first = getc(s->f);
    int n = 1;

    if (first <= 0)
        return false;
    while (!(first & (0x100 >> n)))
        n++;
    if (n > longest)
        return false;
    *x = is_id ? (uint64_t)first : (uint64_t)first & (0xffu >> n);
    for (int i = 1; i < n; i++) {
        const int c = getc(s->f);

        if (c == EOF)
            return false;
        *x = *x << 8 | (uint64_t)c;
    }
    *all_ones = *x == (UINT64_C(1) << 7 * n) - 1;
    s->at += n;
    return true;
}

/* Reads the header of the next element before `end`. */
static bool next(struct scan *s, int64_t end, struct element *e)
{
    uint64_t size;
    bool unknown;

    if (s->at >= end || s->left-- <= 0 || !number(s, 4, true, &e->id, &unknown) ||
        !number(s, 8, false, &size, &unknown))
        return false;
    e->body = s->at;
    /* No overflow: the size is below 2^56 and the offset is in the file. */
    e->end = unknown ? INT64_MAX : s->at + (int64_t)size;
    return true;
}

static bool skip(struct scan *s, const struct element *e)
{
    s->at = e->end;
    return e->end < INT64_MAX && fseeko(s->f, (off_t)e->end, SEEK_SET) == 0;
}

static bool read_uint(struct scan *s, const struct element *e, int *out)
{
    uint64_t x = 0;

    if (e->end - e->body > 8)
        return false;
    for (; s->at < e->end; s->at++) {
        const int c = getc(s->f);

        if (c == EOF)
            return false;
        x = x << 8 | (uint64_t)c;
    }
    *out = x > INT_MAX ? INT_MAX : (int)x;
    return true;
}

static bool read_video(struct scan *s, int64_t end, struct kvr_crop *c)
{
    struct element e;

    while (next(s, end, &e)) {
        int *to = e.id == ID_CROP_TOP         ? &c->top
                  : e.id == ID_CROP_BOTTOM    ? &c->bottom
                  : e.id == ID_CROP_LEFT      ? &c->left
                  : e.id == ID_CROP_RIGHT     ? &c->right
                  : e.id == ID_DISPLAY_WIDTH  ? &c->display_width
                  : e.id == ID_DISPLAY_HEIGHT ? &c->display_height
                  : e.id == ID_DISPLAY_UNIT   ? &c->display_unit
                                              : NULL;

        if (to ? !read_uint(s, &e, to) : !skip(s, &e))
            return false;
    }
    return s->at == end;
}

static bool read_entry(struct scan *s, int64_t end, struct kvr_crop *c, int *type)
{
    struct element e;

    memset(c, 0, sizeof *c);
    *type = 0;
    while (next(s, end, &e))
        if (e.id == ID_TRACK_TYPE ? !read_uint(s, &e, type)
            : e.id == ID_VIDEO    ? !read_video(s, e.end, c)
                                  : !skip(s, &e))
            return false;
    return s->at == end;
}

/* Finds the Tracks element. Other elements are skipped; the blocks of a cluster of unknown size are
 * skipped one by one. */
static bool find_tracks(struct scan *s, struct element *e)
{
    while (next(s, INT64_MAX, e)) {
        if (e->id == ID_TRACKS)
            return true;
        if (e->id != ID_SEGMENT && (e->id != ID_CLUSTER || e->end < INT64_MAX) && !skip(s, e))
            return false;
    }
    return false;
}

enum kvr_status kvr_crop_read(struct kvr_crop *out, FILE *f, int nth, const char *path)
{
    struct scan s = { .f = f, .left = MAX_ELEMENTS };
    struct element tracks, e;
    int type;

    rewind(f);
    if (find_tracks(&s, &tracks))
        while (next(&s, tracks.end, &e)) {
            if (e.id != ID_TRACK_ENTRY) {
                if (!skip(&s, &e))
                    break;
                continue;
            }
            if (!read_entry(&s, e.end, out, &type))
                break;
            if (type == TYPE_VIDEO && nth-- == 0)
                return KVR_OK;
        }
    memset(out, 0, sizeof *out);
    return kvr_fail(KVR_EFORMAT,
                    "%s: the crop is unknown, since the Matroska header has no readable entry of "
                    "the video track: remux the file (ffmpeg -i FILE -c copy OUT.mkv)",
                    path);
}

/* Reduces num / den to lowest terms, then halves both numbers until they fit into an int. */
static struct kvr_ratio reduced(int64_t num, int64_t den)
{
    int64_t a = num, b = den;

    while (b) {
        const int64_t r = a % b;

        a = b;
        b = r;
    }
    num /= a;
    den /= a;
    while (num > INT_MAX || den > INT_MAX) {
        num = (num + 1) / 2;
        den = (den + 1) / 2;
    }
    return (struct kvr_ratio){ (int)num, (int)den };
}

enum kvr_status kvr_crop_apply(const struct kvr_crop *c, struct kvr_video *v, const char *path)
{
    struct kvr_frames *f = &v->frames;
    const int64_t w = f->width - (int64_t)c->left - c->right;
    const int64_t h = f->height - (int64_t)c->top - c->bottom;
    const size_t row = 3 * (size_t)f->width;
    uint8_t *to = v->pixels;

    if (!c->top && !c->bottom && !c->left && !c->right)
        return KVR_OK;
    if (w <= 0 || h <= 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the crop in the header (%d top, %d bottom, %d left, %d right) leaves "
                        "no pixel of %dx%d",
                        path, c->top, c->bottom, c->left, c->right, f->width, f->height);
    for (int i = 0; i < f->n; i++) {
        const uint8_t *from = v->pixels + (size_t)i * (size_t)f->height * row +
                              (size_t)c->top * row + 3 * (size_t)c->left;

        for (int64_t y = 0; y < h; y++, from += row, to += 3 * w)
            memmove(to, from, 3 * (size_t)w);
    }
    f->width = (int)w;
    f->height = (int)h;
    if (c->display_unit < KVR_CROP_UNIT_UNKNOWN)
        v->pixel = reduced((c->display_width ? c->display_width : w) * h,
                           (c->display_height ? c->display_height : h) * w);
    return KVR_OK;
}
