/* fuzz_vbench.c - any bytes as a VBench result file are refused with a message and an empty result,
 * or are read. If an entry of the file names the stored video, its scores go to the database. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/store/vbench.h"
#include "tests/fuzz/fuzz_text.h"
#include "tests/rows.h"

/* Returns an in-memory database with one session and one cell, which has a video. A new database
 * replaces it after every EACH inputs, so that it stays small. */
static struct kvr_store *open_store(void)
{
    enum { EACH = 500 };
    static struct kvr_store *s;
    static int n;
    struct kvr_session session = example_session();
    struct kvr_row_artifact video = { "video", "videos/red.mp4", 1, "00" };
    struct kvr_row row = example_row("k", "s0", KVR_OUT_OK);

    if (n++ % EACH > 0)
        return s;
    kvr_store_close(&s);
    if (kvr_store_open(&s, ":memory:") != KVR_OK || kvr_store_session(s, &session) != KVR_OK)
        abort();
    row.is_baseline = true;
    row.n_artifacts = 1;
    row.artifact = &video;
    if (kvr_store_put(s, &row) != KVR_OK)
        abort();
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_store *s = open_store();
    struct kvr_vbench_result r;

    if (kvr_store_vbench(s, fuzz_file(bytes, n), &r) == KVR_OK) {
        assert(r.matched <= r.videos && r.stored >= r.matched);
        kvr_vbench_free(&r);
    } else {
        assert(kvr_error()[0] && !r.unmatched && !r.empty);
    }
    return 0;
}
