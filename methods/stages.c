/* stages.c - the list of codec stages, and their lookup by name. */
#include <stdio.h>
#include <string.h>

#include "methods/codec.h"

#define STAGE(name) extern const struct kvr_stage kvr_stage_##name;
#include "methods/methods.def"

#define STAGE(name) &kvr_stage_##name,
const struct kvr_stage *const kvr_stages[] = {
#include "methods/methods.def"
    NULL
};

static const struct former {
    const char *name, *now;
} formers[] = {
#define FORMER(name, now) { #name, #now },
#include "methods/methods.def"
    { NULL, NULL }
};

const char *kvr_stage_name_now(const char *name)
{
    for (const struct former *f = formers; f->name; f++)
        if (!strcmp(f->name, name))
            return f->now;
    return name;
}

void kvr_codec_first_text(const char *text, char *to, size_t n)
{
    size_t used = 0;

    to[0] = 0;
    while (*text && used < n) {
        const size_t name = strcspn(text, "(|+ "), stage = strcspn(text, "|+");
        const size_t end = stage + strspn(text + stage, "|+ ");
        const char *first = text;
        size_t length = name;

        for (const struct former *f = formers; f->name; f++)
            if (strlen(f->now) == name && !strncmp(f->now, text, name)) {
                first = f->name;
                length = strlen(first);
            }
        used += (size_t)snprintf(to + used, n - used, "%.*s%.*s", (int)length, first,
                                 (int)(end - name), text + name);
        text += end;
    }
}

enum kvr_status kvr_stage_find(const struct kvr_stage **out, const char *name)
{
    const char *names[256]; /* only the first 255 names are compared to suggest a similar name */
    const struct kvr_stage *s;
    const char *near;
    int n = 0;

    name = kvr_stage_name_now(name);
    for (int i = 0; (s = kvr_stage_at(i)) != NULL; i++) {
        if (!strcmp(s->name, name)) {
            *out = s;
            return KVR_OK;
        }
        if (n < 255)
            names[n++] = s->name;
    }
    names[n] = NULL;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_EINVAL, "codec: unknown stage '%s'%s%s%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
