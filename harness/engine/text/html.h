/* html.h - decodes HTML character references such as `&amp;`. */
#ifndef KVR_TEXT_HTML_H
#define KVR_TEXT_HTML_H

#include "harness/engine/text/unicode.h"

/* Appends to `to` the text of `from` with its character references decoded by the rules of HTML 5,
 * as Python's html.unescape does. References may be decimal numbers, hexadecimal numbers or names.
 * If several names match, the longest name is decoded. The semicolon at the end of a character
 * reference is optional. */
enum kvr_status kvr_html_unescape(struct kvr_points *to, const struct kvr_points *from);
/* Decodes like kvr_html_unescape, but by the rules of Python's ftfy: only references that end in a
 * semicolon are decoded, and lower-case names may also be written in capitals. A numeric reference
 * is decoded only if its digits extend to the semicolon, so `&#65z;` stays unchanged. */
enum kvr_status kvr_html_unescape_whole(struct kvr_points *to, const struct kvr_points *from);

/* Returns the code point of a Windows-1252 byte; a byte that Windows-1252 does not define maps to
 * itself. */
uint32_t kvr_windows_1252(unsigned char byte);

#endif
