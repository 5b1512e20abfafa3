/* names.h - maps tensor names of Wan, Self-Forcing, Diffusers, ComfyUI and Hugging Face files to
 * kvreel's names (rows in names.def).
 *
 *     struct kvr_names style;
 *     char *mapped;
 *     kvr_names_find(&style, name_of, file, n);         once, over all names of a file
 *     kvr_names_map(&style, "net.head.modulation", &mapped);
 *     free(mapped);                                     NULL: not part of the model */
#ifndef KVR_WEIGHTS_NAMES_H
#define KVR_WEIGHTS_NAMES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_names {
    const char *root; /* prefix of the model's tensors; "" if none */
    unsigned styles;  /* bits */
};

/* Detects the root and styles of n names; name(of, i) returns the i-th. */
void kvr_names_find(struct kvr_names *s, const char *(*name)(const void *of, int i), const void *of,
                    int n);
/* *mapped: malloc'd, or NULL for a tensor outside the root. False: out of memory. */
bool kvr_names_map(const struct kvr_names *s, const char *name, char **mapped);

#ifdef __cplusplus
}
#endif
#endif
