/* fuzz_gguf.c - any bytes as a GGUF file are refused with a message, or every tensor and the
 * metadata can be read. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/files/weights/gguf.h"

static void ask(const struct kvr_gguf *g, const char *key)
{
    struct kvr_gguf_string s, *words;
    double x, *reals;
    int64_t i;
    size_t n;
    bool yes;

    kvr_gguf_int(g, key, &i);
    kvr_gguf_real(g, key, &x);
    kvr_gguf_bool(g, key, &yes);
    kvr_gguf_text(g, key, &s);
    if (kvr_gguf_texts(g, key, &words, &n) == KVR_OK)
        free(words);
    if (kvr_gguf_reals(g, key, &reals, &n) == KVR_OK)
        free(reals);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_weight_list l;
    struct kvr_gguf *g;
    int64_t bad;

    if (kvr_gguf_read(&g, &l, "fuzz", bytes, n) == KVR_OK) {
        ask(g, "general.architecture");
        ask(g, "general.alignment");
        for (int i = 0; i < l.n; i++) {
            assert(l.w[i].data >= bytes && l.w[i].data + l.w[i].n_bytes <= bytes + n);
            if (kvr_weight_nonfinite(&l.w[i], &bad) != KVR_OK)
                abort();
        }
    } else {
        assert(!g && l.n == 0 && strncmp(kvr_error(), "fuzz: ", 6) == 0);
    }
    kvr_weight_list_free(&l);
    kvr_gguf_free(&g);
    return 0;
}
