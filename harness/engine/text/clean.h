/* clean.h - cleans a prompt's text as Wan does before tokenization.
 *
 *     char *clean;
 *     KVR_TRY(kvr_text_clean(" caf\xc3\x83\xc2\xa9  &amp;amp; bar\n", &clean));
 *     ... "caf\xc3\xa9 & bar" ...
 *     free(clean);
 *
 * Each line is repaired as by Python's ftfy.fix_text, repeatedly until it no longer changes. That
 * covers character references, UTF-8 read as Latin-1 or Windows-1252, C1 controls, ligatures, wide
 * and narrow forms, and curly quotes. It also covers line ends, terminal escapes, control
 * characters and normalization form C. Then references are decoded twice more, and runs of white
 * space become one blank, none at the ends.
 *
 * ftfy also guesses at text garbled by other code pages or only in part; this file leaves such text
 * unchanged. */
#ifndef KVR_TEXT_CLEAN_H
#define KVR_TEXT_CLEAN_H

#include "harness/core/status.h"

/* KVR_EFORMAT: invalid UTF-8. *out is malloc'ed. */
enum kvr_status kvr_text_clean(const char *text, char **out);

#endif
