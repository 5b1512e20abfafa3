/* names.c - maps tensor names to the model's names: strips and renames prefixes of a name's
 * components. */
#include "harness/files/weights/names.h"

#include <stdlib.h>
#include <string.h>

enum style { DIFFUSERS, UMT5_HF };

struct rename {
    enum style style;
    const char *from, *to;
};

#define ROOT(prefix)
#define LEAD(prefix)
#define WRAP(part)
#define SIGN(style, text)
#define RENAME(style, from, to)
#define WHOLE(style, from, to)

static const char *const roots[] = {
#undef ROOT
#define ROOT(prefix) prefix,
#include "harness/files/weights/names.def"
#undef ROOT
#define ROOT(prefix)
};
static const char *const leads[] = {
#undef LEAD
#define LEAD(prefix) prefix,
#include "harness/files/weights/names.def"
#undef LEAD
#define LEAD(prefix)
};
static const char *const wraps[] = {
#undef WRAP
#define WRAP(part) part,
#include "harness/files/weights/names.def"
#undef WRAP
#define WRAP(part)
};
static const struct rename signs[] = {
#undef SIGN
#define SIGN(style, text) { style, text, "" },
#include "harness/files/weights/names.def"
#undef SIGN
#define SIGN(style, text)
};
static const struct rename renames[] = {
#undef RENAME
#define RENAME(style, from, to) { style, from, to },
#include "harness/files/weights/names.def"
#undef RENAME
#define RENAME(style, from, to)
};
static const struct rename wholes[] = {
#undef WHOLE
#define WHOLE(style, from, to) { style, from, to },
#include "harness/files/weights/names.def"
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

void kvr_names_find(struct kvr_names *s, const char *(*name)(const void *of, int i), const void *of,
                    int n)
{
    size_t best = COUNT(roots);

    *s = (struct kvr_names){ .root = "" };
    for (int i = 0; i < n; i++) {
        const char *x = name(of, i);

        for (size_t r = 0; r < best; r++)
            if (begins(x, roots[r]))
                best = r;
        for (size_t j = 0; j < COUNT(signs); j++)
            if (strstr(x, signs[j].from))
                s->styles |= 1u << signs[j].style;
    }
    if (best < COUNT(roots))
        s->root = roots[best];
}

/* Replaces the n characters at `at` by the string `by`. The buffer must be large enough for the
 * result. */
static void replace(char *at, size_t n, const char *by)
{
    size_t m = strlen(by);

    memmove(at + m, at + n, strlen(at + n) + 1);
    memcpy(at, by, m);
}

static void strip(char *s)
{
    for (char *part = s; part; part = strchr(part, '.'), part = part ? part + 1 : NULL)
        for (size_t i = 0; i < COUNT(wraps); i++)
            while (begins(part, wraps[i]))
                replace(part, strlen(wraps[i]), "");
    for (size_t i = 0; i < COUNT(leads);)
        if (begins(s, leads[i])) {
            replace(s, strlen(leads[i]), "");
            i = 0;
        } else {
            i++;
        }
}

/* Applies the first row of `renames` that matches the component `part`. Returns the first character
 * after the replacement, or `part` if no row matches. */
static char *rename_part(const struct kvr_names *s, char *part)
{
    for (size_t i = 0; i < COUNT(renames); i++)
        if (s->styles >> renames[i].style & 1 && begins(part, renames[i].from)) {
            replace(part, strlen(renames[i].from), renames[i].to);
            return part + strlen(renames[i].to);
        }
    return part;
}

static void rename_all(const struct kvr_names *s, char *name)
{
    for (size_t i = 0; i < COUNT(wholes); i++)
        if (s->styles >> wholes[i].style & 1 && strcmp(name, wholes[i].from) == 0) {
            replace(name, strlen(name), wholes[i].to);
            return;
        }
    for (char *part = name; part && *part;) {
        char *after = rename_part(s, part);

        if (after > name && after != part && after[-1] == '.') {
            part = after; /* the replacement ended with a dot: the next component begins here */
            continue;
        }
        part = strchr(after, '.');
        part = part ? part + 1 : NULL;
    }
}

bool kvr_names_map(const struct kvr_names *s, const char *name, char **mapped)
{
    size_t n = strlen(name);
    char *fit;

    *mapped = NULL;
    if (!begins(name, s->root))
        return true;
    /* The mapped name fits: a row of `renames` at most doubles the length of the text that it
     * replaces, and the replacement is not renamed again. */
    *mapped = malloc(4 * n + 64);
    if (!*mapped)
        return false;
    memcpy(*mapped, name + strlen(s->root), n - strlen(s->root) + 1);
    strip(*mapped);
    if (s->styles)
        rename_all(s, *mapped);
    fit = realloc(*mapped, strlen(*mapped) + 1);
    if (fit)
        *mapped = fit;
    return true;
}
