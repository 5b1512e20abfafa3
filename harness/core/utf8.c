/* utf8.c - decodes and encodes UTF-8 sequences. Overlong forms, surrogates and code points beyond
 * U+10FFFF are malformed. */
#include "harness/core/utf8.h"

#include <string.h>

int kvr_utf8_read(const void *text, size_t n, uint32_t *c)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = text;
    int length;

    if (n == 0)
        return 0;
    length = s[0] < 0x80             ? 1
             : (s[0] & 0xe0) == 0xc0 ? 2
             : (s[0] & 0xf0) == 0xe0 ? 3
             : (s[0] & 0xf8) == 0xf0 ? 4
                                     : 0;
    if (length == 0 || (size_t)length > n)
        return 0;
    *c = length == 1 ? s[0] : s[0] & (0xffu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (s[i] & 0x3fu);
    }
    return *c < least[length] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : length;
}

int kvr_utf8_write(uint32_t c, char to[4])
{
    const int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

    for (int i = length - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[length] | c);
    return length;
}

int kvr_utf8_length(const char *s)
{
    uint32_t c;

    return kvr_utf8_read(s, *s ? strnlen(s, 4) : 1, &c);
}

bool kvr_utf8_is(const char *s)
{
    return kvr_utf8_is_n(s, strlen(s));
}

bool kvr_utf8_is_n(const void *text, size_t n)
{
    const unsigned char *s = text;
    uint32_t c;

    for (size_t i = 0; i < n;) {
        const int length = kvr_utf8_read(s + i, n - i, &c);

        if (length == 0)
            return false;
        i += (size_t)length;
    }
    return true;
}
