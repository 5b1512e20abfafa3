/* ops_table.c - selects the table of operations of ops.h for a device. */
#include "harness/engine/ops.h"

const struct kvr_ops *kvr_ops_of(const struct kvr_dev *dev)
{
    const struct kvr_ops *const tables[KVR_N_BACKENDS] = {
        [KVR_CPU] = kvr_ops_cpu(),
        [KVR_CUDA] = &kvr_ops_cuda,
    };

    return tables[kvr_dev_backend(dev)];
}
