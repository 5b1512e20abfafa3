/* fuzz_safetensors.c - any bytes as a safetensors file are refused with a message, or every
 * tensor's data lies within these bytes. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/device/array.h"

static void read_all(const struct kvr_st *f, struct kvr_dev *dev, const uint8_t *bytes, size_t n)
{
    size_t total = 0;

    for (int i = 0; i < kvr_st_count(f); i++) {
        const char *name = kvr_st_name(f, i);
        struct kvr_array a = { 0 };
        struct kvr_tensor t;

        assert(kvr_st_has(f, name));
        if (kvr_st_view(f, name, &t) == KVR_OK) {
            const uint8_t *data = t.data;
            size_t size = kvr_tensor_bytes(&t);

            assert(data >= bytes && data + size <= bytes + n);
            total += size;
            assert(kvr_st_get(f, name, &t) == KVR_OK);
            assert((uintptr_t)t.data % kvr_dtype_size(t.dtype) == 0 || size == 0);
        }
        if (kvr_array_read(&a, dev, KVR_MEM_IO, f, name, 1, (const int64_t[]){ -1 }) == KVR_OK)
            kvr_array_free(&a);
    }
    assert(total <= n);
    kvr_st_metadata(f, "format");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_dev *dev;
    struct kvr_st *f;

    if (kvr_dev_open(&dev, KVR_CPU) != KVR_OK)
        abort();
    kvr_mem_set_limit(dev, (size_t)1 << 26);
    if (kvr_st_open_memory(&f, bytes, n, "fuzz") == KVR_OK)
        read_all(f, dev, bytes, n);
    else
        assert(!f && strncmp(kvr_error(), "fuzz: ", 6) == 0);
    kvr_st_close(&f);
    kvr_dev_close(&dev);
    return 0;
}
