/* tiny_model.h - a model folder with random weights for tests, with optional faults. */
#ifndef KVR_TESTS_TINY_MODEL_H
#define KVR_TESTS_TINY_MODEL_H

#include "harness/core/dtype.h"

struct tiny_size {
    int dim, ffn, freq, text_dim, text_len, channels, heads, layers;
    int patch_h, patch_w, height, width, frames;
    int words;         /* number of words in the vocabulary; 0: no vocabulary */
    const char *steps; /* timesteps of the denoising schedule, a JSON list; NULL: [1000, 500] */
    /* text to insert into config.json with additional keys, such as ", \"prediction\": \"x0\"";
     * NULL: none */
    const char *keys;
};

/* Faults to put into the weight file. If all fields are zero, the file has no fault. */
struct tiny_fault {
    const char *without;  /* name of a tensor to leave out */
    const char *misshape; /* name of a tensor whose last dimension gets one more element */
    const char *extra;    /* name of an additional tensor */
    const char *twice;    /* name of a tensor to write once more, with the prefix "model." */
    const char *prefix;   /* prefix of every tensor name */
    const char *nan;      /* name of a tensor whose last element is NaN */
    enum kvr_dtype dtype; /* data type of all weights; F32 if the field is zero-initialized */
    const char *file;     /* name of the weight file; NULL: dit.safetensors */
};

/* Writes a model into a new folder and stores the folder's path, "/tmp/kvr_model_XXXXXX", in `dir`.
 * Failures are Check assertions. */
void tiny_model_make(char dir[64], const struct tiny_size *s, const struct tiny_fault *fault);
void tiny_model_remove(const char *dir);

/* Replaces the config.json in `dir` with `text`. */
void tiny_model_config(const char *dir, const char *text);
/* Returns the text of the config.json that tiny_model_make() writes for a model of size `s`. The
 * caller frees the text. */
char *tiny_model_config_text(const struct tiny_size *s);

#endif
