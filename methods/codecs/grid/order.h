/* order.h - maps floats to integers that compare like the floats. */
#ifndef KVR_METHODS_GRID_ORDER_H
#define KVR_METHODS_GRID_ORDER_H

#include <stdint.h>

#include "harness/core/dtype.h"

/* Maps floats to integers that increase in the order -NaN, -infinity, ..., -0, 0, ..., infinity,
 * NaN. Minima and maxima of these integers need no special case for NaN, and any evaluation order
 * gives the same result. */
static inline int32_t order_of(float x)
{
    const uint32_t u = kvr_f32_bits(x);

    return (int32_t)(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

static inline float float_of(int32_t order)
{
    const uint32_t u = (uint32_t)order;

    return kvr_bits_f32(u ^ (u >> 31 ? 0x7fffffffu : 0u));
}

#endif
