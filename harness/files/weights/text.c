/* text.c - sanitizes names from untrusted files. */
#include "harness/files/weights/text.h"

#include <stdint.h>
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

/* Returns the length of the UTF-8 character at s in bytes; 0: malformed. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c;

    if (len == 0 || len > n || s[0] > 0xf4)
        return 0;
    c = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    return c >= least[len] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? len : 0;
}

bool kvr_is_utf8(const void *text, size_t n)
{
    const unsigned char *s = text;

    for (size_t i = 0; i < n;) {
        size_t len = utf8_length(s + i, n - i);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
