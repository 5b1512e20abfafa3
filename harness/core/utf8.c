/* utf8.c - computes the length of UTF-8 sequences, and rejects overlong forms, surrogates and code
 * points beyond U+10FFFF. */
#include "harness/core/utf8.h"

int kvr_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const int n = s[0] < 0x80                    ? 1
                  : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                  : (s[0] & 0xf0) == 0xe0        ? 3
                  : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                 : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((n == 3 && s[0] == 0xe0 && s[1] < 0xa0) || (n == 3 && s[0] == 0xed && s[1] > 0x9f) ||
        (n == 4 && s[0] == 0xf0 && s[1] < 0x90) || (n == 4 && s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

bool kvr_utf8_is(const char *s)
{
    for (int n; *s; s += n) {
        n = kvr_utf8_length(s);
        if (n == 0)
            return false;
    }
    return true;
}
