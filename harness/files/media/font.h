/* font.h - a 5x7 bitmap font for labels, ASCII 32 to 126. */
#ifndef KVR_MEDIA_FONT_H
#define KVR_MEDIA_FONT_H

#include <stdint.h>

enum { KVR_FONT_WIDTH = 5, KVR_FONT_HEIGHT = 7, KVR_FONT_ADVANCE = 6 };

/* An RGB picture to draw on. */
struct kvr_canvas {
    int height, width;
    uint8_t *rgb; /* [height, width, 3] */
};

/* Draws the first `max_chars` characters of `text` with the upper left corner at (x, y), each dot
 * `scale` pixels wide, clipped to the canvas. A character outside ASCII is drawn as one '?'. */
void kvr_font_draw(struct kvr_canvas *c, int x, int y, int scale, const uint8_t colour[3],
                   const char *text, int max_chars);

/* Number of characters that kvr_font_draw would draw. */
int kvr_font_count(const char *text);

#endif
