/* read_tokens.h - kvr_cache_read() for tests. */
#ifndef KVR_TESTS_READ_TOKENS_H
#define KVR_TESTS_READ_TOKENS_H

#include <check.h>

#include "harness/cache/cache.h"

/* Reads as kvr_cache_read(), which must succeed, and returns the number of tokens. */
static inline int64_t read_tokens(const struct kvr_cache *c, int layer, float *k, float *v)
{
    int64_t n;

    ck_assert_msg(kvr_cache_read(c, layer, k, v, &n) == KVR_OK, "%s", kvr_error());
    return n;
}

#endif
