/* names.h - from the names of Wan, Self-Forcing, Diffusers, ComfyUI and Hugging Face files to
 * those that kvreel loads (the rows are in names.def).
 *
 *     struct kvr_names style;
 *     char *mapped;
 *     kvr_names_look(&style, name_of, file, n);         once, over all names of a file
 *     kvr_names_map(&style, "net.head.modulation", &mapped);
 *     free(mapped);                                     NULL: not of the model */
#ifndef KVR_WEIGHTS_NAMES_H
#define KVR_WEIGHTS_NAMES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_names {
    const char *root; /* the prefix of the model's tensors; "" when there is none */
    unsigned styles;  /* bits */
};

/* Which root and styles the n names show. name(of, i) gives the i-th. */
void kvr_names_look(struct kvr_names *s, const char *(*name)(const void *of, int i), const void *of,
                    int n);
/* *mapped: malloc'd, or NULL for a tensor outside of the root. false: no memory. */
bool kvr_names_map(const struct kvr_names *s, const char *name, char **mapped);

#ifdef __cplusplus
}
#endif
#endif
