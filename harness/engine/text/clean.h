/* clean.h - cleans a prompt's text as Wan does before tokenization.
 *
 *     char *clean;
 *     KVR_TRY(kvr_text_clean(" caf\xc3\x83\xc2\xa9  &amp;amp; bar\n", &clean));
 *     ... "caf\xc3\xa9 & bar" ...
 *     free(clean);
 *
 * Each line of a prompt is repaired as by Python's ftfy.fix_text, repeatedly until a repair no
 * longer changes the line. The repairs decode HTML character references and text whose UTF-8 bytes
 * were read as Latin-1 or Windows-1252. In the first line that contains `<` and in all later lines,
 * the repairs leave character references unchanged. The repairs replace ligatures, fullwidth and
 * halfwidth forms, and curly quotes by plain characters, C1 controls by the characters that
 * Windows-1252 has at these codes, and other line ends by LF. The repairs remove terminal escapes
 * and control characters, and convert the text to Unicode's normalization form C. After all
 * repairs, HTML character references are decoded two more times. Finally, each run of white space
 * becomes one space, and white space at both ends is removed.
 *
 * Python's ftfy also repairs lines that were garbled by code pages other than Latin-1 and
 * Windows-1252, and lines that are garbled only in part; clean.c leaves such lines unchanged. */
#ifndef KVR_TEXT_CLEAN_H
#define KVR_TEXT_CLEAN_H

#include "harness/core/status.h"

/* Returns KVR_EFORMAT if `text` is not valid UTF-8. *out is malloc'ed. */
enum kvr_status kvr_text_clean(const char *text, char **out);

#endif
