/* html.h - `&amp;` and its like become the characters they stand for. */
#ifndef KVR_TEXT_HTML_H
#define KVR_TEXT_HTML_H

#include "harness/engine/text/unicode.h"

/* As HTML 5 has it and Python's html.unescape does it: with or without a semicolon, the longest
 * name that begins the word, numbers in both bases. `to` gets the text behind what it holds. */
enum kvr_status kvr_html_unescape(struct kvr_points *to, const struct kvr_points *from);
/* More careful and more lenient: names with a semicolon alone, among them lower-case ones written
 * in capitals. A number whose unescaping leaves a semicolon behind stays as it is. */
enum kvr_status kvr_html_unescape_whole(struct kvr_points *to, const struct kvr_points *from);

/* The character of a byte in Windows-1252; bytes that are none there stand for themselves. */
uint32_t kvr_windows_1252(unsigned char byte);

#endif
