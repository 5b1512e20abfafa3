/* names.h - translates the tensor names in Wan, Self-Forcing, Diffusers, ComfyUI and Hugging Face
 * files to kvreel's names, by the rules in names.def.
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
    const char *root; /* common prefix of the model's tensor names in the file, or "" if there is
                       * none */
    unsigned styles;  /* bit i: the rules of style i (names.def) apply */
};

/* Detects the common prefix and the naming styles of a file's n tensor names. The callback name(of,
 * i) returns the i-th tensor name; `of` is its context. */
void kvr_names_find(struct kvr_names *s, const char *(*name)(const void *of, int i), const void *of,
                    int n);
/* Sets *mapped to kvreel's name of the tensor `name`, as a malloc'd string. *mapped is NULL if
 * `name` does not begin with the prefix `root`. Returns false if memory is exhausted. */
bool kvr_names_map(const struct kvr_names *s, const char *name, char **mapped);

#ifdef __cplusplus
}
#endif
#endif
