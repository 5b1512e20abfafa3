/* unicode.c - converts UTF-8 to code points and back, composes characters canonically (Unicode
 * Standard Annex 15), and converts fullwidth and halfwidth characters. */
#include "harness/engine/text/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/utf8.h"

static const struct class_run {
    uint32_t first, last;
    int ccc;
} classes[] = {
#define CLASS(first, last, ccc) { first, last, ccc },
#define SPLIT(whole, first, second)
#define PAIR(whole, first, second)
#define WIDTH(from, first, second)
#include "harness/engine/text/unicode.def"
#undef CLASS
#undef SPLIT
#undef PAIR
};

static const struct split {
    uint32_t whole, first, second;
    bool pair;
} splits[] = {
#define CLASS(first, last, ccc)
#define SPLIT(whole, first, second) { whole, first, second, false },
#define PAIR(whole, first, second) { whole, first, second, true },
#include "harness/engine/text/unicode.def"
#undef CLASS
#undef SPLIT
#undef PAIR
#undef WIDTH
};

static const struct width {
    uint32_t from, first, second;
} widths[] = {
#define CLASS(first, last, ccc)
#define SPLIT(whole, first, second)
#define PAIR(whole, first, second)
#define WIDTH(from, first, second) { from, first, second },
#include "harness/engine/text/unicode.def"
#undef CLASS
#undef SPLIT
#undef PAIR
#undef WIDTH
};

enum {
    N_CLASSES = sizeof classes / sizeof *classes,
    N_SPLITS = sizeof splits / sizeof *splits,
    N_WIDTHS = sizeof widths / sizeof *widths,
    /* Hangul syllables are composed by arithmetic: their code points number all combinations of
     * leading consonants (L), vowels (V) and trailing consonants (T). */
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

/* --- code points ------------------------------------------------------------------------- */

enum kvr_status kvr_points_add(struct kvr_points *p, uint32_t c)
{
    if (p->n == p->capacity) {
        const size_t capacity = p->capacity ? 2 * p->capacity : 64;
        uint32_t *bigger = realloc(p->at, capacity * sizeof *bigger);

        if (!bigger)
            return kvr_fail(KVR_ENOMEM, "text: out of memory while allocating %zu characters",
                            capacity);
        p->at = bigger;
        p->capacity = capacity;
    }
    p->at[p->n++] = c;
    return KVR_OK;
}

enum kvr_status kvr_points_read(struct kvr_points *p, const char *utf8)
{
    const unsigned char *s = (const unsigned char *)utf8;
    const size_t n = strlen(utf8);

    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        const int length = kvr_utf8_read(s + i, n - i, &c);

        if (length == 0)
            return kvr_fail(KVR_EFORMAT, "text: byte %zu (0x%02x) is not valid UTF-8", i, s[i]);
        KVR_TRY(kvr_points_add(p, c));
        i += (size_t)length;
    }
    return KVR_OK;
}

enum kvr_status kvr_points_write(const struct kvr_points *p, char **utf8)
{
    char *to = malloc(4 * p->n + 1);
    size_t n = 0;

    *utf8 = to;
    if (!to)
        return kvr_fail(KVR_ENOMEM, "text: out of memory while allocating %zu characters", p->n);
    for (size_t i = 0; i < p->n; i++)
        n += (size_t)kvr_utf8_write(p->at[i], to + n);
    to[n] = 0;
    return KVR_OK;
}

void kvr_points_free(struct kvr_points *p)
{
    free(p->at);
    *p = (struct kvr_points){ 0 };
}

bool kvr_points_same(const struct kvr_points *a, const struct kvr_points *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n * sizeof *a->at) == 0);
}

/* --- normalization form C --------------------------------------------------------------- */

static int ccc_of(uint32_t c)
{
    size_t a = 0, b = N_CLASSES;

    while (a < b) {
        const size_t m = (a + b) / 2;

        if (c > classes[m].last)
            a = m + 1;
        else if (c < classes[m].first)
            b = m;
        else
            return classes[m].ccc;
    }
    return 0;
}

static const struct split *split_of(uint32_t c)
{
    size_t a = 0, b = N_SPLITS;

    while (a < b) {
        const size_t m = (a + b) / 2;

        if (c == splits[m].whole)
            return &splits[m];
        if (c > splits[m].whole)
            a = m + 1;
        else
            b = m;
    }
    return NULL;
}

static enum kvr_status decompose(struct kvr_points *to, uint32_t c)
{
    const struct split *s = split_of(c);

    if (c >= S_BASE && c < S_BASE + S_COUNT) {
        const uint32_t i = c - S_BASE, t = i % T_COUNT;

        KVR_TRY(kvr_points_add(to, L_BASE + i / (V_COUNT * T_COUNT)));
        KVR_TRY(kvr_points_add(to, V_BASE + i % (V_COUNT * T_COUNT) / T_COUNT));
        return t ? kvr_points_add(to, T_BASE + t) : KVR_OK;
    }
    if (!s)
        return kvr_points_add(to, c);
    /* at most 3 nested calls, for the deepest decomposition in the table */
    KVR_TRY(decompose(to, s->first));
    return s->second ? decompose(to, s->second) : KVR_OK;
}

/* Sorts the marks after a base character by combining class. The sort is stable. */
static void order_marks(struct kvr_points *p)
{
    for (size_t i = 1; i < p->n; i++) {
        const uint32_t c = p->at[i];
        const int ccc = ccc_of(c);
        size_t j = i;

        for (; ccc > 0 && j > 0 && ccc_of(p->at[j - 1]) > ccc; j--)
            p->at[j] = p->at[j - 1];
        p->at[j] = c;
    }
}

/* Returns the canonical composition of two characters, or 0 if they have none. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
    if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE && b < V_BASE + V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE &&
        b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    for (size_t i = 0; i < N_SPLITS; i++)
        if (splits[i].pair && splits[i].first == a && splits[i].second == b)
            return splits[i].whole;
    return 0;
}

static void compose(struct kvr_points *p)
{
    size_t starter = 0, n = 0;
    /* p->at[starter] is the last base character. `last` is the combining class of the last mark
     * after it that was not composed with it, or -1 if there is none. */
    int last = -1;
    bool has = false;

    for (size_t i = 0; i < p->n; i++) {
        const uint32_t c = p->at[i];
        const int ccc = ccc_of(c);
        const uint32_t whole = has && last < ccc ? compose_pair(p->at[starter], c) : 0;

        if (whole) {
            p->at[starter] = whole;
            continue;
        }
        if (ccc == 0) {
            starter = n;
            has = true;
            last = -1;
        } else {
            last = ccc;
        }
        p->at[n++] = c;
    }
    p->n = n;
}

static bool is_plain(const struct kvr_points *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i] >= 0x300) /* normalization form C leaves characters below U+0300 unchanged */
            return false;
    return true;
}

enum kvr_status kvr_points_compose(struct kvr_points *p)
{
    struct kvr_points whole = { 0 };
    enum kvr_status st = KVR_OK;

    if (is_plain(p))
        return KVR_OK;
    for (size_t i = 0; st == KVR_OK && i < p->n; i++)
        st = decompose(&whole, p->at[i]);
    if (st != KVR_OK) {
        kvr_points_free(&whole);
        return st;
    }
    order_marks(&whole);
    compose(&whole);
    kvr_points_free(p);
    *p = whole;
    return KVR_OK;
}

/* --- widths and spaces ------------------------------------------------------------------ */

enum kvr_status kvr_points_add_usual(struct kvr_points *p, uint32_t c)
{
    const bool may = c == 0x3000 || (c >= 0xff01 && c <= 0xffef);

    for (size_t i = 0; may && i < N_WIDTHS; i++)
        if (widths[i].from == c) {
            KVR_TRY(kvr_points_add(p, widths[i].first));
            return widths[i].second ? kvr_points_add(p, widths[i].second) : KVR_OK;
        }
    return kvr_points_add(p, c);
}

bool kvr_is_space(uint32_t c)
{
    return (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}
