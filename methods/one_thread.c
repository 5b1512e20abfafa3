/* one_thread.c - see one_thread.h. */
#include "methods/one_thread.h"

#include <omp.h>

#include "methods/codecs/grid/grid_kernels.h"

/* Returns whether encoding and decoding take at most about 1 ns per element. This holds for codecs
 * whose stages all are `raw`, Walsh-Hadamard transforms, outliers or integer grids. */
static bool is_quick(const struct kvr_codec *c)
{
    for (int i = 0; i < c->n_stages; i++) {
        struct kvr_layout l;

        kvr_codec_layout(c, i, &(struct kvr_block_shape){ 0, 1, 1 }, &l);
        if (l.form != KVR_FORM_WALSH && l.form != KVR_FORM_RAW && l.form != KVR_FORM_ENTRIES &&
            !l.chains)
            return false;
    }
    return true;
}

int kvr_one_thread_begin(const struct kvr_codec *c, const struct kvr_dev *dev, int64_t n)
{
    const int n_threads = omp_in_parallel() ? 1 : omp_get_max_threads();

    if (n_threads > 1 && n < KVR_MIN_PARALLEL_ELEMENTS && (!dev || kvr_dev_in_host(dev)) &&
        is_quick(c))
        omp_set_num_threads(1);
    return n_threads;
}

void kvr_one_thread_end(int n_threads)
{
    if (n_threads > 1)
        omp_set_num_threads(n_threads);
}
