/* unicode.h - text as an array of Unicode code points.
 *
 *     struct kvr_points p = { 0 };
 *     KVR_TRY(kvr_points_read(&p, "caf\xc3\xa9"));
 *     KVR_TRY(kvr_points_compose(&p));
 *     KVR_TRY(kvr_points_write(&p, &utf8));      malloc'ed
 *     kvr_points_free(&p); */
#ifndef KVR_TEXT_UNICODE_H
#define KVR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/core/status.h"

struct kvr_points {
    uint32_t *at;
    size_t n, capacity;
};

enum { KVR_REPLACEMENT = 0xfffd };

/* Appends the code points of a UTF-8 string. If the string is not valid UTF-8, returns KVR_EFORMAT
 * with the position of the first invalid byte. */
enum kvr_status kvr_points_read(struct kvr_points *p, const char *utf8);
/* Appends one code point. */
enum kvr_status kvr_points_add(struct kvr_points *p, uint32_t c);
enum kvr_status kvr_points_write(const struct kvr_points *p, char **utf8); /* malloc'ed */
void kvr_points_free(struct kvr_points *p);                                /* leaves {0} */
bool kvr_points_same(const struct kvr_points *a, const struct kvr_points *b);

/* Converts the text to Unicode's normalization form C, in which combining characters are
 * composed. */
enum kvr_status kvr_points_compose(struct kvr_points *p);
/* Appends character c, or, if c is a fullwidth or halfwidth character (U+3000, U+FF01..U+FFEF), the
 * NFKC form of c, such as "A" for U+FF21. */
enum kvr_status kvr_points_add_usual(struct kvr_points *p, uint32_t c);
/* Whether Python's str.isspace classifies the character as white space. */
bool kvr_is_space(uint32_t c);

#endif
