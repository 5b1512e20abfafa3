/* tiny_model.h - a model folder with random weights for tests, with optional faults. */
#ifndef KVR_TESTS_TINY_MODEL_H
#define KVR_TESTS_TINY_MODEL_H

#include "harness/core/dtype.h"

struct tiny_size {
    int dim, ffn, freq, text_dim, text_len, channels, heads, layers;
    int patch_h, patch_w, height, width, frames;
    int words;         /* vocabulary; 0: none */
    const char *steps; /* of denoising, a JSON list; NULL: [1000, 500] */
    const char *keys;  /* more JSON keys: ", \"prediction\": \"x0\""; may be NULL */
};

/* What to do to the weights; all zero: nothing. */
struct tiny_fault {
    const char *without;  /* leave this tensor out */
    const char *misshape; /* give this one an element more in its last dimension */
    const char *extra;    /* an additional tensor */
    const char *twice;    /* write this one a second time behind the prefix "model." */
    const char *prefix;   /* before every name */
    const char *nan;      /* this tensor's last element */
    enum kvr_dtype dtype; /* of all weights: F32 is 0 */
    const char *file;     /* dit.safetensors when NULL */
};

/* Asserts through Check. `dir` becomes a fresh folder, "/tmp/kvr_model_XXXXXX". */
void tiny_model_make(char dir[64], const struct tiny_size *s, const struct tiny_fault *fault);
void tiny_model_remove(const char *dir);

/* config.json alone, replaced by `text`. */
void tiny_model_config(const char *dir, const char *text);
/* The text tiny_model_make wrote; free() it. */
char *tiny_model_config_text(const struct tiny_size *s);

#endif
