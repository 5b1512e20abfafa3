/* font.h - draws labels with a 5x7 bitmap font of the ASCII characters 32 to 126. */
#ifndef KVR_MEDIA_FONT_H
#define KVR_MEDIA_FONT_H

#include <stdint.h>

enum { KVR_FONT_WIDTH = 5, KVR_FONT_HEIGHT = 7, KVR_FONT_ADVANCE = 6 };

/* RGB image that receives the labels. */
struct kvr_canvas {
    int height, width;
    uint8_t *rgb; /* [height, width, 3] */
};

/* Draws at most the first `max_chars` characters of `text`, clipped to the canvas. (x, y) is the
 * upper left corner of the text. Each dot of the font is drawn as `scale` x `scale` pixels. A UTF-8
 * character outside ASCII 32 to 126 is drawn as '?'. */
void kvr_font_draw(struct kvr_canvas *c, int x, int y, int scale, const uint8_t colour[3],
                   const char *text, int max_chars);

/* Returns the number of characters in the UTF-8 string `text`; a sequence of several bytes is one
 * character. */
int kvr_font_count(const char *text);

#endif
