/* html.c - decodes the character references of HTML, both named (entities.def) and numeric. */
#include "harness/engine/text/html.h"

#include <stdlib.h>
#include <string.h>

static const struct entity {
    const char *name, *utf8;
    bool shouted;
} entities[] = {
#define ENTITY(name, utf8) { name, utf8, false },
#define SHOUTED(name, utf8) { name, utf8, true },
#include "harness/engine/text/entities.def"
#undef ENTITY
#undef SHOUTED
};

enum { N_ENTITIES = sizeof entities / sizeof *entities, MAX_NAME = 32, MAX_WHOLE = 24 };

/* Characters of Windows-1252 for the bytes 0x80..0x9f. Undefined bytes map to themselves. */
static const uint16_t c1[32] = {
    0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
    0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178,
};

uint32_t kvr_windows_1252(unsigned char byte)
{
    return byte >= 0x80 && byte < 0xa0 ? c1[byte - 0x80] : byte;
}

static int compare(const void *key, const void *row)
{
    return strcmp(key, ((const struct entity *)row)->name);
}

static const struct entity *find(const char *name, bool shouted)
{
    const struct entity *e = bsearch(name, entities, N_ENTITIES, sizeof *entities, compare);

    return e && (shouted || !e->shouted) ? e : NULL;
}

static bool is_digit(uint32_t c, bool hex)
{
    return (c >= '0' && c <= '9') || (hex && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
}

/* Whether c is a code point below 0x110000 that HTML does not accept as a character. */
static bool is_no_character(uint32_t c)
{
    return (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) ||
           (c >= 0x7f && c <= 0x9f) || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

static enum kvr_status add_number(struct kvr_points *to, uint32_t c)
{
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return kvr_points_add(to, KVR_REPLACEMENT);
    if (c >= 0x80 && c < 0xa0)
        return kvr_points_add(to, kvr_windows_1252((unsigned char)c));
    return is_no_character(c) ? KVR_OK : kvr_points_add(to, c);
}

/* Returns the length of the numeric reference at `at`, such as "&#65;" or "&#x41;", or 0 if no
 * reference begins there. *closed is true if it ends in a semicolon. *c becomes the character. */
static size_t number_at(const uint32_t *at, size_t n, uint32_t *c, bool *closed)
{
    const bool hex = n > 2 && (at[2] == 'x' || at[2] == 'X');
    const size_t from = hex ? 3 : 2;
    size_t i = from;

    *c = 0;
    for (; i < n && is_digit(at[i], hex); i++) {
        const uint32_t d = at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10;

        *c = *c > 0x110000 ? *c : *c * (hex ? 16 : 10) + d;
    }
    if (i == from)
        return 0;
    *closed = i < n && at[i] == ';';
    return *closed ? i + 1 : i;
}

/* Copies the characters after the ampersand at[0] that may name a reference: up to `most`
 * characters, and a semicolon if one follows them. Returns the number of copied characters. */
static size_t name_at(const uint32_t *at, size_t n, size_t most, char name[MAX_NAME + 2])
{
    size_t i = 1;

    for (; i < n && i <= most && at[i] > ' ' && at[i] < 0x7f && !strchr("<&#;", (int)at[i]); i++)
        name[i - 1] = (char)at[i];
    if (i < n && i > 1 && at[i] == ';') {
        name[i - 1] = ';';
        i++;
    }
    name[i - 1] = 0;
    return i - 1;
}

/* Decodes one reference at from->at[i] and advances *i past it. An ampersand without a reference is
 * copied. */
static enum kvr_status unescape_one(struct kvr_points *to, const struct kvr_points *from, size_t *i)
{
    const uint32_t *at = from->at + *i;
    const size_t n = from->n - *i;
    char name[MAX_NAME + 2];
    size_t length;
    uint32_t c;
    bool closed;

    if (n > 1 && at[1] == '#') {
        length = number_at(at, n, &c, &closed);
        *i += length ? length : 1;
        return length ? add_number(to, c) : kvr_points_add(to, '&');
    }
    length = name_at(at, n, MAX_NAME, name);
    for (; length > 1; name[--length] = 0) {
        const struct entity *e = find(name, false);

        if (e) {
            *i += length + 1;
            return kvr_points_read(to, e->utf8);
        }
    }
    *i += 1;
    return kvr_points_add(to, '&');
}

enum kvr_status kvr_html_unescape(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n;)
        if (from->at[i] == '&')
            KVR_TRY(unescape_one(to, from, &i));
        else
            KVR_TRY(kvr_points_add(to, from->at[i++]));
    return KVR_OK;
}

/* Returns the length of the reference at `at`: '&', an optional '#', 1 to 24 letters and digits,
 * and a semicolon. Returns 0 if no such reference begins there. */
static size_t whole_at(const uint32_t *at, size_t n, char name[MAX_WHOLE + 2])
{
    const size_t from = n > 1 && at[1] == '#' ? 2 : 1;
    size_t i = from;

    for (; i < n && i - from < MAX_WHOLE && at[i] < 0x7f &&
           (is_digit(at[i], false) || ((at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'z'));
         i++)
        name[i - from] = (char)at[i];
    if (i == from || i >= n || at[i] != ';')
        return 0;
    name[i - from] = ';';
    name[i - from + 1] = 0;
    return i + 1;
}

static enum kvr_status unescape_whole(struct kvr_points *to, const struct kvr_points *from,
                                      size_t *i)
{
    const uint32_t *at = from->at + *i;
    const size_t n = from->n - *i;
    char name[MAX_WHOLE + 2];
    const size_t length = whole_at(at, n, name);
    const struct entity *e = NULL;
    uint32_t c;
    bool closed = false;

    if (length && at[1] == '#') {
        if (number_at(at, n, &c, &closed) == length && closed) {
            *i += length;
            return add_number(to, c);
        }
    } else if (length && (e = find(name, true)) != NULL) {
        *i += length;
        return kvr_points_read(to, e->utf8);
    }
    *i += 1;
    return kvr_points_add(to, '&');
}

enum kvr_status kvr_html_unescape_whole(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n;)
        if (from->at[i] == '&')
            KVR_TRY(unescape_whole(to, from, &i));
        else
            KVR_TRY(kvr_points_add(to, from->at[i++]));
    return KVR_OK;
}
