/* fuzz_torch.c - any bytes as a .pt file are refused with a message, or every tensor can be read.
 * The same bytes are also read as a bare pickle. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/sha256.h"
#include "harness/files/weights/pickle.h"
#include "harness/files/weights/torch.h"

static void read_all(const struct kvr_weight_list *l, size_t n)
{
    char hex[KVR_SHA256_HEX];
    int64_t bad;

    assert(l->n > 0);
    for (int i = 0; i < l->n; i++) {
        assert(l->w[i].n_bytes >= 0 && (uint64_t)l->w[i].n_bytes <= KVR_WEIGHTS_EXPANSION * n + 7);
        assert(kvr_weight_list_find(l, l->w[i].name) == &l->w[i]);
        if (kvr_weight_sha256(&l->w[i], hex) != KVR_OK ||
            kvr_weight_nonfinite(&l->w[i], &bad) != KVR_OK)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_weight_list l;
    struct kvr_pickle p;
    size_t used;
    bool legacy;

    if (kvr_torch_read(&l, &legacy, "fuzz", bytes, n) == KVR_OK)
        read_all(&l, n);
    else
        assert(l.n == 0 && !l.w && strncmp(kvr_error(), "fuzz: ", 6) == 0);
    kvr_weight_list_free(&l);
    if (kvr_pickle_read(&p, "fuzz", bytes, n, &used) == KVR_OK)
        assert(used <= n && p.root < p.n_nodes);
    kvr_pickle_free(&p);
    return 0;
}
