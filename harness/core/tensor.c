/* tensor.c - computes the number of elements of a tensor, and formats shapes. */
#include "harness/core/tensor.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

int64_t kvr_tensor_count(const struct kvr_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

size_t kvr_tensor_bytes(const struct kvr_tensor *t)
{
    return (size_t)kvr_tensor_count(t) * kvr_dtype_size(t->dtype);
}

const char *kvr_shape_text(const int64_t *shape, int n_dims, char *buf, size_t n)
{
    size_t used = 0;

    if (n == 0)
        return buf;
    buf[0] = '\0';
    for (int i = -1; i <= n_dims && used < n; i++) {
        int got;

        if (i < 0)
            got = snprintf(buf + used, n - used, "[");
        else if (i == n_dims)
            got = snprintf(buf + used, n - used, "]");
        else
            got = snprintf(buf + used, n - used, "%s%" PRId64, i ? ", " : "", shape[i]);
        if (got < 0)
            break;
        used += (size_t)got;
    }
    return buf;
}

enum kvr_status kvr_shape_check(const char *file, const char *name, int n_have, const int64_t *have,
                                int n_need, const int64_t *need)
{
    bool same = n_have == n_need;
    char has[192], needs[192];

    for (int i = 0; same && i < n_need; i++)
        same = need[i] == -1 || need[i] == have[i];
    if (same)
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT, "%s: tensor '%s': shape is %s, need %s", file, name,
                    kvr_shape_text(have, n_have, has, sizeof has),
                    kvr_shape_text(need, n_need, needs, sizeof needs));
}
