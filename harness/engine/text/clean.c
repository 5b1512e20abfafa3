/* clean.c - repairs the text of prompts (clean.h). Every repair writes a new text, which is fast
 * enough for short texts. */
#include "harness/engine/text/clean.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/utf8.h"
#include "harness/engine/text/html.h"
#include "harness/engine/text/unicode.h"

typedef enum kvr_status repair_fn(struct kvr_points *to, const struct kvr_points *from);

/* --- UTF-8 decoded as another encoding --------------------------------------------------- */

/* Returns the byte that Windows-1252 (or Latin-1, if `latin`) decodes to this character, or -1 if
 * no byte does. */
static int byte_of(uint32_t c, bool latin)
{
    if (c < 0x80 || (c >= 0xa0 && c < 0x100) || (latin && c < 0x100))
        return (int)c;
    for (int b = 0x80; b < 0xa0 && !latin; b++)
        if (kvr_windows_1252((unsigned char)b) == c)
            return b;
    return -1;
}

/* Encodes the characters of `from` as bytes of Windows-1252, or of Latin-1 if `latin`. If the bytes
 * are valid UTF-8 with a character beyond ASCII, `to` becomes the text that they encode, and *did
 * becomes true. */
static enum kvr_status reread(struct kvr_points *to, const struct kvr_points *from, bool latin,
                              bool *did)
{
    unsigned char *bytes = malloc(from->n + 1);
    bool fits = true, more = false;
    enum kvr_status st = KVR_OK;

    *did = false;
    if (!bytes)
        return kvr_fail(KVR_ENOMEM, "text: out of memory while allocating %zu characters", from->n);
    for (size_t i = 0; fits && i < from->n; i++) {
        const int b = byte_of(from->at[i], latin);

        fits = b >= 0;
        more = more || b >= 0x80;
        bytes[i] = (unsigned char)b;
    }
    fits = fits && more;
    for (size_t i = 0; fits && st == KVR_OK && i < from->n;) {
        uint32_t c = 0;
        const int length = kvr_utf8_read(bytes + i, from->n - i, &c);

        fits = length > 0;
        if (fits)
            st = kvr_points_add(to, c);
        i += (size_t)length;
    }
    free(bytes);
    *did = fits;
    return st;
}

static enum kvr_status mend_encoding(struct kvr_points *to, const struct kvr_points *from)
{
    bool did;

    for (int latin = 1; latin >= 0; latin--) {
        to->n = 0;
        KVR_TRY(reread(to, from, latin, &did));
        if (did)
            return KVR_OK;
    }
    to->n = 0;
    for (size_t i = 0; i < from->n; i++)
        KVR_TRY(kvr_points_add(to, from->at[i]));
    return KVR_OK;
}

/* --- characters ------------------------------------------------------------------------- */

static enum kvr_status fix_c1(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const uint32_t c = from->at[i];

        KVR_TRY(kvr_points_add(to, c < 0x100 ? kvr_windows_1252((unsigned char)c) : c));
    }
    return KVR_OK;
}

static const struct {
    uint32_t c;
    const char *letters;
} ligatures[] = {
    { 0x132, "IJ" },         { 0x133, "ij" },        { 0x149, "\xca\xbcn" }, { 0x1c4, "D\xc5\xbd" },
    { 0x1c5, "D\xc5\xbe" },  { 0x1c6, "d\xc5\xbe" }, { 0x1c7, "LJ" },        { 0x1c8, "Lj" },
    { 0x1c9, "lj" },         { 0x1ca, "NJ" },        { 0x1cb, "Nj" },        { 0x1cc, "nj" },
    { 0x1f1, "DZ" },         { 0x1f2, "Dz" },        { 0x1f3, "dz" },        { 0xfb00, "ff" },
    { 0xfb01, "fi" },        { 0xfb02, "fl" },       { 0xfb03, "ffi" },      { 0xfb04, "ffl" },
    { 0xfb05, "\xc5\xbft" }, { 0xfb06, "st" },
};

static enum kvr_status fix_ligatures(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const char *letters = NULL;

        for (size_t k = 0; k < sizeof ligatures / sizeof *ligatures; k++)
            if (ligatures[k].c == from->at[i])
                letters = ligatures[k].letters;
        KVR_TRY(letters ? kvr_points_read(to, letters) : kvr_points_add(to, from->at[i]));
    }
    return KVR_OK;
}

static enum kvr_status fix_width(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++)
        KVR_TRY(kvr_points_add_usual(to, from->at[i]));
    return KVR_OK;
}

static enum kvr_status fix_quotes(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const uint32_t c = from->at[i];
        const bool one = c == 0x2bc || (c >= 0x2018 && c <= 0x201b);
        const bool two = c >= 0x201c && c <= 0x201f;

        KVR_TRY(kvr_points_add(to, one ? '\'' : two ? '"' : c));
    }
    return KVR_OK;
}

static enum kvr_status fix_line_ends(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const uint32_t c = from->at[i];

        if (c == '\r' && i + 1 < from->n && from->at[i + 1] == '\n')
            continue;
        KVR_TRY(
            kvr_points_add(to, c == '\r' || c == 0x2028 || c == 0x2029 || c == 0x85 ? '\n' : c));
    }
    return KVR_OK;
}

/* Returns the length of the escape sequence at `at` (ESC [, digits and semicolons, a letter), or 0
 * if no such sequence begins there. */
static size_t escape_at(const uint32_t *at, size_t n)
{
    size_t i = 2;

    if (n < 3 || at[0] != 0x1b || at[1] != '[')
        return 0;
    while (i < n && ((at[i] >= '0' && at[i] <= '9') || at[i] == ';'))
        i++;
    return i < n && (at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'z' ? i + 1 : 0;
}

static enum kvr_status drop_escapes(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n;) {
        const size_t length = escape_at(from->at + i, from->n - i);

        if (length == 0)
            KVR_TRY(kvr_points_add(to, from->at[i]));
        i += length ? length : 1;
    }
    return KVR_OK;
}

static enum kvr_status drop_controls(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const uint32_t c = from->at[i];

        if (c > 8 && c != 0xb && (c < 0xe || c > 0x1f) && c != 0x7f && (c < 0x206a || c > 0x206f) &&
            c != 0xfeff && (c < 0xfff9 || c > 0xfffc))
            KVR_TRY(kvr_points_add(to, c));
    }
    return KVR_OK;
}

/* --- repair of a line, then of the text ------------------------------------------------- */

static enum kvr_status apply(struct kvr_points *p, repair_fn *repair)
{
    struct kvr_points to = { 0 };
    enum kvr_status st = repair(&to, p);

    if (st != KVR_OK) {
        kvr_points_free(&to);
        return st;
    }
    kvr_points_free(p);
    *p = to;
    return KVR_OK;
}

static bool has_less_than(const struct kvr_points *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i] == '<')
            return true;
    return false;
}

static enum kvr_status repair_once(struct kvr_points *line, bool unescape)
{
    static repair_fn *const repairs[] = { mend_encoding, fix_c1,        fix_ligatures,
                                          fix_width,     fix_quotes,    fix_line_ends,
                                          drop_escapes,  drop_controls, NULL };

    if (unescape)
        KVR_TRY(apply(line, kvr_html_unescape_whole));
    for (int i = 0; repairs[i]; i++)
        KVR_TRY(apply(line, repairs[i]));
    return kvr_points_compose(line);
}

static enum kvr_status copy(struct kvr_points *to, const struct kvr_points *from)
{
    for (size_t i = 0; i < from->n; i++)
        KVR_TRY(kvr_points_add(to, from->at[i]));
    return KVR_OK;
}

/* Repeats the repairs until no repair changes the line. The loop ends, because every repair
 * shortens the line or leaves fewer characters to repair. */
static enum kvr_status repair_line(struct kvr_points *line, bool unescape)
{
    for (bool same = false; !same;) {
        struct kvr_points before = { 0 };
        enum kvr_status st = copy(&before, line);

        if (st == KVR_OK)
            st = repair_once(line, unescape);
        same = kvr_points_same(&before, line);
        kvr_points_free(&before);
        KVR_TRY(st);
    }
    return KVR_OK;
}

/* Repairs all lines. In the first line that contains '<' and in all later lines, this function does
 * not decode HTML character references, because they may be part of markup. */
static enum kvr_status repair_lines(struct kvr_points *to, const struct kvr_points *from)
{
    bool unescape = true;

    for (size_t i = 0; i < from->n;) {
        struct kvr_points line = { 0 };
        enum kvr_status st = KVR_OK;
        bool end = false;

        for (; st == KVR_OK && i < from->n && !end; i++) {
            st = kvr_points_add(&line, from->at[i]);
            end = from->at[i] == '\n';
        }
        unescape = unescape && !has_less_than(&line);
        if (st == KVR_OK)
            st = repair_line(&line, unescape);
        if (st == KVR_OK)
            st = copy(to, &line);
        kvr_points_free(&line);
        KVR_TRY(st);
    }
    return KVR_OK;
}

static enum kvr_status single_blanks(struct kvr_points *to, const struct kvr_points *from)
{
    bool blank = false;

    for (size_t i = 0; i < from->n; i++) {
        if (kvr_is_space(from->at[i])) {
            blank = to->n > 0;
            continue;
        }
        if (blank)
            KVR_TRY(kvr_points_add(to, ' '));
        blank = false;
        KVR_TRY(kvr_points_add(to, from->at[i]));
    }
    return KVR_OK;
}

enum kvr_status kvr_text_clean(const char *text, char **out)
{
    static repair_fn *const all[] = { repair_lines, kvr_html_unescape, kvr_html_unescape,
                                      single_blanks, NULL };
    struct kvr_points p = { 0 };
    enum kvr_status st = kvr_points_read(&p, text);

    *out = NULL;
    for (int i = 0; st == KVR_OK && all[i]; i++)
        st = apply(&p, all[i]);
    if (st == KVR_OK)
        st = kvr_points_write(&p, out);
    kvr_points_free(&p);
    return st;
}
