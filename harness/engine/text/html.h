/* html.h - decodes HTML character references such as `&amp;`. */
#ifndef KVR_TEXT_HTML_H
#define KVR_TEXT_HTML_H

#include "harness/engine/text/unicode.h"

/* Like Python's html.unescape, by HTML 5's rules: with or without a semicolon, the longest known
 * name, decimal and hexadecimal numbers. Appends the decoded text to `to`. */
enum kvr_status kvr_html_unescape(struct kvr_points *to, const struct kvr_points *from);
/* Decodes as ftfy does: only names that end in a semicolon, but also lower-case names written in
 * capitals. A number is left unchanged if decoding it would leave a semicolon. */
enum kvr_status kvr_html_unescape_whole(struct kvr_points *to, const struct kvr_points *from);

/* The character of a Windows-1252 byte; undefined bytes map to themselves. */
uint32_t kvr_windows_1252(unsigned char byte);

#endif
