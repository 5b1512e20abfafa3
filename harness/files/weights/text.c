/* text.c - sanitizes names from untrusted files. */
#include "harness/files/weights/text.h"

#include <stdbool.h>
#include <string.h>

static bool plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_';
}

const char *kvr_printable(char buf[KVR_PRINTABLE], const void *text, size_t n)
{
    const unsigned char *s = text;
    size_t keep = n < KVR_PRINTABLE - 4 ? n : KVR_PRINTABLE - 4;

    for (size_t i = 0; i < keep; i++)
        buf[i] = plain(s[i]) ? (char)s[i] : '?';
    memcpy(buf + keep, keep < n ? ".." : "", keep < n ? 3 : 1);
    return buf;
}

const char *kvr_shown_string(char buf[KVR_PRINTABLE], const char *text)
{
    return kvr_printable(buf, text, strlen(text));
}
