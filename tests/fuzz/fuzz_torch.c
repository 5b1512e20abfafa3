/* fuzz_torch.c - whatever the bytes say, a file of torch is refused with a message or every tensor
 * of it can be read. What is no zip is tried as a bare pickle, too.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined, seeds in tests/fixtures/pt. With
 * -DKVR_FUZZ_MAIN the program replays the files given as arguments. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/sha256.h"
#include "harness/weights/pickle.h"
#include "harness/weights/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

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

#ifdef KVR_FUZZ_MAIN
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        uint8_t *bytes = malloc(1 << 20);
        size_t n;

        if (!file || !bytes)
            abort();
        n = fread(bytes, 1, 1 << 20, file);
        fclose(file);
        /* A block of exactly n bytes, so that a sanitizer sees one byte too far. */
        bytes = realloc(bytes, n ? n : 1);
        LLVMFuzzerTestOneInput(bytes, n);
        free(bytes);
    }
    return EXIT_SUCCESS;
}
#endif
