/* palette.c - colours of method families; see palette.def. */
#include "harness/report/plot/palette.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAMILY(name, rgb)
#define SPARE(rgb)
#define TAG(name, rgb)
#define PHASE(name, rgb)

#undef FAMILY
#define FAMILY(name, rgb) { name, rgb },
const struct kvr_colour kvr_palette_families[] = {
#include "harness/report/plot/palette.def"
    { NULL, NULL }
};
#undef FAMILY
#define FAMILY(name, rgb)

#undef SPARE
#define SPARE(rgb) rgb,
static const char *const fallback[] = {
#include "harness/report/plot/palette.def"
};
#undef SPARE
#define SPARE(rgb)

#undef TAG
#define TAG(name, rgb) { name, rgb },
const struct kvr_colour kvr_palette_tags[] = {
#include "harness/report/plot/palette.def"
    { NULL, NULL }
};
#undef TAG
#define TAG(name, rgb)

#undef PHASE
#define PHASE(name, rgb) { name, rgb },
const struct kvr_colour kvr_palette_phases[] = {
#include "harness/report/plot/palette.def"
    { NULL, NULL }
};

const char *kvr_family_colour(const char *family)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (const struct kvr_colour *c = kvr_palette_families; c->name; c++)
        if (strcmp(c->name, family) == 0)
            return c->rgb;
    for (const char *s = family; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 16777619u;
    return fallback[hash % (sizeof fallback / sizeof fallback[0])];
}
