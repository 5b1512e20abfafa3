/* layer_kit.h - opens a single cache layer, stores tokens and decodes them, for tests of the
 * layer's segments. */
#ifndef KVR_TESTS_LAYER_KIT_H
#define KVR_TESTS_LAYER_KIT_H

#include <check.h>
#include <string.h>

#include "harness/cache/layer.h"

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer_scratch scratch;
    struct kvr_layer layer;
};

/* Opens a cache layer of `method` with one setting, *set, for a model of one layer
 * (geo->n_layers is 1). */
static inline void kit_open(struct kit *t, const char *method, const struct kvr_setting *set,
                            const struct kvr_layer_geometry *geo)
{
    memset(t, 0, sizeof *t);
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, method, set, 1) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, geo, &t->scratch, false), KVR_OK);
}

static inline void kit_close(struct kit *t)
{
    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
}

/* Stores the keys and values of tokens [at, at + n). The arrays `keys` and `values` have the shape
 * [all tokens, width]. Then decodes tokens [0, at + n) of the layer to k and v [at + n, width],
 * unless k and v are NULL. Sets held[i] to 1 if attention uses token i, otherwise to 0. */
static inline void kit_store(struct kit *t, const float *keys, const float *values, int width,
                             int64_t at, int n, float *k, float *v, uint8_t *held)
{
    ck_assert_msg(kvr_layer_commit(&t->layer, keys + at * width, values + at * width, at, n) ==
                      KVR_OK,
                  "%s", kvr_error());
    kvr_layer_dense(&t->layer, 0, at + n, k, v, held);
}

#endif
