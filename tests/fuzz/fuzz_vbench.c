/* fuzz_vbench.c - whatever the bytes say, a file of VBench's results is refused with a message, and
 * then nothing of it is there, or scores the video that there is. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/store/vbench.h"
#include "tests/fuzz/fuzz_text.h"

/* A database in memory, a new one now and then, with a session of which cells can be. */
static struct kvr_store *open_store(void)
{
    enum { EACH = 500 };
    static struct kvr_store *s;
    static int n;
    struct kvr_session session = { .id = "s0",
                                   .argv = "[]",
                                   .config_path = "c.yaml",
                                   .config_text = "",
                                   .host = "h",
                                   .os = "o",
                                   .cpu_model = "m",
                                   .governor = "g",
                                   .git_hash = "0",
                                   .compiler = "c",
                                   .cflags = "f",
                                   .code = "x",
                                   .libraries = "l",
                                   .turbo = "t",
                                   .driver = "none: cpu" };

    if (n++ % EACH > 0)
        return s;
    kvr_store_close(&s);
    if (kvr_store_open(&s, ":memory:") != KVR_OK || kvr_store_session(s, &session) != KVR_OK)
        abort();
    if (kvr_store_put(s, &(struct kvr_row){
                             .key = "k",
                             .rollout = "r",
                             .baseline = "k",
                             .is_baseline = true,
                             .session = "s0",
                             .spec = "{\"frames\": 6, \"seed\": 1, \"window\": 0, \"sink\": 0, "
                                     "\"evict\": false, \"path\": \"staged\", \"backend\": "
                                     "\"cpu\", \"threads\": 1, \"kind\": \"bench\", \"parts\": {}, "
                                     "\"plan\": \"p\", \"options\": {}}",
                             .method = "BF16",
                             .name = "BF16",
                             .reading = "intended",
                             .family = "exact",
                             .model = "nano",
                             .suite = "s",
                             .prompt_id = "red",
                             .prompt = "a red disc",
                             .outcome = KVR_OUT_OK,
                             .reason = "",
                             .log_tail = "",
                             .started = "2026-01-01T00:00:00Z",
                             .finished = "2026-01-01T00:00:01Z",
                             .measured = true,
                             .wall_ns = 1000,
                             .peak_bytes = 5000,
                             .n_artifacts = 1,
                             .artifact = &(struct kvr_row_artifact){ "video", "videos/red.mp4", 1,
                                                                     "00" } }) != KVR_OK)
        abort();
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_store *s = open_store();
    struct kvr_vbench_result r;

    if (kvr_store_vbench(s, fuzz_file(bytes, n), &r) == KVR_OK) {
        assert(r.matched <= r.videos && r.stored >= r.matched);
        json_decref(r.unmatched);
    } else {
        assert(kvr_error()[0] && !r.unmatched);
    }
    return 0;
}
