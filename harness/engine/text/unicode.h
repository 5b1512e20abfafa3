/* unicode.h - text as code points.
 *
 *     struct kvr_points p = { 0 };
 *     KVR_TRY(kvr_points_read(&p, "caf\xc3\xa9"));
 *     KVR_TRY(kvr_points_compose(&p));
 *     KVR_TRY(kvr_points_write(&p, &utf8));      malloc'ed
 *     kvr_points_free(&p);
 */
#ifndef KVR_TEXT_UNICODE_H
#define KVR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

struct kvr_points {
    uint32_t *at;
    size_t n, room;
};

enum { KVR_REPLACEMENT = 0xfffd };

/* From UTF-8, added behind what is there. KVR_EFORMAT, with the place: no UTF-8. */
enum kvr_status kvr_points_read(struct kvr_points *p, const char *utf8);
enum kvr_status kvr_points_add(struct kvr_points *p, uint32_t c);
enum kvr_status kvr_points_write(const struct kvr_points *p, char **utf8); /* malloc'ed */
void kvr_points_free(struct kvr_points *p);                                /* leaves {0} */
bool kvr_points_same(const struct kvr_points *a, const struct kvr_points *b);

/* One code point of the n bytes at s into *c, and how many bytes it has; 0: they are no UTF-8. */
int kvr_utf8_read(const unsigned char *s, size_t n, uint32_t *c);
int kvr_utf8_write(uint32_t c, char to[4]); /* how many bytes */

/* Normalization form C: what can be one character is. */
enum kvr_status kvr_points_compose(struct kvr_points *p);
/* Adds the usual form of a wide or narrow character (U+3000, U+FF01..U+FFEF); others themselves. */
enum kvr_status kvr_points_add_usual(struct kvr_points *p, uint32_t c);
/* What Python's str.isspace calls white space. */
bool kvr_is_space(uint32_t c);

#endif
