/* reuse.c - parses the options of feature reuse, which skips denoising steps (reuse.h). */
#include "methods/reuse.h"

#include <stdio.h>
#include <string.h>

const struct kvr_opt kvr_reuse_options[] = {
    KVR_OPT_FLOAT(
        struct kvr_reuse_opts, threshold, 1.5, 0, 1e6,
        "limit for skipping denoising steps: a step is skipped if the relative L1 changes of the "
        "first block's input, summed since the last computed step, are below this limit"),
    KVR_OPT_INT(struct kvr_reuse_opts, warmup, 0, 0, 1000,
                "number of first denoising steps that are always computed"),
    { 0 }
};

enum kvr_status kvr_reuse_parse(struct kvr_reuse_opts *out, bool *on, const char *text)
{
    static const char name[] = "rel_l1";
    char args[KVR_OPT_STRING_MAX];
    size_t n;

    kvr_opts_defaults(kvr_reuse_options, out);
    *on = text != NULL;
    if (!text || !strcmp(text, name))
        return KVR_OK;
    n = strlen(text);
    if (strncmp(text, name, sizeof name - 1) || text[sizeof name - 1] != '(' ||
        text[n - 1] != ')' || n >= sizeof args)
        return kvr_fail(KVR_EINVAL,
                        "reuse: '%s' is not valid; need rel_l1 or rel_l1(threshold=X,warmup=N), a "
                        "text of fewer than %zu characters",
                        text, sizeof args);
    snprintf(args, sizeof args, "%.*s", (int)(n - sizeof name - 1), text + sizeof name);
    return kvr_opts_parse(kvr_reuse_options, out, args);
}
