/* fuzz_shards.c - any bytes as an index of weight shards are either read or refused with a message.
 * None of the shards that the index names exists. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/files/weights/shards.h"
#include "tests/fuzz/fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_weight_list l = { 0 };
    struct kvr_shards s = { 0 };

    if (kvr_shards_read(&s, &l, fuzz_file(bytes, n)) == KVR_OK)
        kvr_weight_list_free(&l);
    else
        assert(s.n == 0 && l.n == 0 && kvr_error()[0]);
    kvr_shards_free(&s);
    return 0;
}
