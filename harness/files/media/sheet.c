/* sheet.c - contact sheets: rows of frames with a label above each row.
 *
 *     +-------------------------------+
 *     | label of row 0                |
 *     | 0        21        41         |  frame numbers
 *     | [frame]  [frame]  [frame]     |
 *     | label of row 1                |
 *     | ...                           |
 *     +-------------------------------+ */
#include "harness/files/media/font.h"
#include "harness/files/media/media.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2, MAX_EXTENT = 32768 };

static const uint8_t ink[3] = { 235, 235, 235 };
static const uint8_t faint_ink[3] = { 140, 140, 140 };
static const uint8_t paper = 24;

struct layout {
    int columns, scale;
    int cell_h, cell_w; /* pixels of one enlarged frame */
    int dot, strip;     /* pixels per dot of the font; pixel height of one line of text */
    struct kvr_canvas canvas;
};

static void blit(const struct layout *l, int y0, int x0, const uint8_t *rgb, int width)
{
    for (int y = 0; y < l->cell_h; y++)
        for (int x = 0; x < l->cell_w; x++)
            memcpy(l->canvas.rgb +
                       ((size_t)(y0 + y) * (size_t)l->canvas.width + (size_t)(x0 + x)) * 3,
                   rgb + ((size_t)(y / l->scale) * (size_t)width + (size_t)(x / l->scale)) * 3, 3);
}

static void draw_row(struct layout *l, int y, const struct kvr_sheet_row *row)
{
    const struct kvr_frames *f = &row->frames;
    int columns = row->pick || f->n > l->columns ? l->columns : f->n;
    int available = (l->canvas.width - 2 * GAP) / (KVR_FONT_ADVANCE * l->dot);
    const char *label = row->label ? row->label : "";
    char text[16];

    if (kvr_font_count(label) <= available) {
        kvr_font_draw(&l->canvas, GAP, y + GAP, l->dot, ink, label, available);
    } else {
        kvr_font_draw(&l->canvas, GAP, y + GAP, l->dot, ink, label, available - 2);
        kvr_font_draw(&l->canvas, GAP + (available - 2) * KVR_FONT_ADVANCE * l->dot, y + GAP,
                      l->dot, faint_ink, "..", 2);
    }
    for (int i = 0; i < columns; i++) {
        int t = row->pick      ? row->pick[i]
                : columns == 1 ? 0
                               : (int)((int64_t)i * (f->n - 1) / (columns - 1));
        int x = GAP + i * (l->cell_w + GAP);

        snprintf(text, sizeof text, "%d", t);
        kvr_font_draw(&l->canvas, x, y + l->strip + GAP, l->dot, faint_ink, text,
                      l->cell_w / (KVR_FONT_ADVANCE * l->dot));
        blit(l, y + 2 * l->strip, x, f->rgb + (size_t)t * (size_t)f->height * (size_t)f->width * 3,
             f->width);
    }
}

enum kvr_status kvr_sheet_write(const char *path, const struct kvr_sheet_row *rows, int n_rows,
                                int columns, int scale)
{
    struct layout l = { .columns = columns, .scale = scale };
    const struct kvr_frames *first = &rows[0].frames;
    enum kvr_status st;
    size_t n;

    if (n_rows < 1 || columns < 1 || scale < 1)
        return kvr_fail(KVR_EINVAL,
                        "%s: a contact sheet of %d rows and %d columns at scale %d was requested, "
                        "need at least 1 each",
                        path, n_rows, columns, scale);
    for (int i = 0; i < n_rows; i++)
        if (rows[i].frames.n < 1 || rows[i].frames.height != first->height ||
            rows[i].frames.width != first->width)
            return kvr_fail(
                KVR_EINVAL, "%s: row %d ('%s') has %d frames of %dx%d, but the first row has %dx%d",
                path, i, rows[i].label ? rows[i].label : "", rows[i].frames.n, rows[i].frames.width,
                rows[i].frames.height, first->width, first->height);
    if (first->width < 1 || first->height < 1 ||
        (int64_t)first->width * scale * columns > MAX_EXTENT ||
        (int64_t)first->height * scale * n_rows > MAX_EXTENT)
        return kvr_fail(
            KVR_EINVAL,
            "%s: a contact sheet of %d columns x %d rows of %dx%d frames at scale %d is too large, "
            "need 1..%d pixels a side",
            path, columns, n_rows, first->width, first->height, scale, MAX_EXTENT);
    l.cell_h = first->height * scale;
    l.cell_w = first->width * scale;
    l.dot = l.cell_w >= 120 ? 2 : 1;
    l.strip = KVR_FONT_HEIGHT * l.dot + 2 * GAP;
    l.canvas.width = GAP + columns * (l.cell_w + GAP);
    l.canvas.height = GAP + n_rows * (2 * l.strip + l.cell_h + GAP);
    n = (size_t)l.canvas.width * (size_t)l.canvas.height * 3;
    l.canvas.rgb = malloc(n);
    if (!l.canvas.rgb)
        return kvr_fail(KVR_ENOMEM,
                        "%s: out of memory while allocating a contact sheet of %zu bytes", path, n);
    memset(l.canvas.rgb, paper, n);
    for (int i = 0; i < n_rows; i++)
        draw_row(&l, GAP + i * (2 * l.strip + l.cell_h + GAP), &rows[i]);
    st = kvr_png_write(path, l.canvas.rgb, l.canvas.height, l.canvas.width);
    free(l.canvas.rgb);
    return st;
}
