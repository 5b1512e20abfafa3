/* fuzz_trace.c - any bytes as the index of an attention trace are refused with a message, or the
 * index that is read from them obeys the limits of the trace format. Any bytes as the file of one
 * attention call are refused, or all its values can be read. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/workload/trace/check.h"

static void read_index(const uint8_t *bytes, size_t n)
{
    json_t *doc = json_loadb((const char *)bytes, n, JSON_REJECT_DUPLICATES, NULL);
    struct kvr_trace_info i;

    if (kvr_trace_info_read(&i, doc, "fuzz") == KVR_OK) {
        const struct kvr_trace_layout *l = &i.layout;

        assert(i.model[0] && i.licence[0] && l->n_heads % l->n_kv_heads == 0);
        assert(i.n_passes >= 1 && i.pass[i.n_passes - 1].chunk == i.n_chunks - 1);
        assert((int64_t)i.n_frames * l->tokens_per_frame <= KVR_TRACE_MAX_TOKENS);
        for (int p = 0; p < i.n_passes; p++) {
            char name[KVR_TRACE_FILE_NAME];

            kvr_trace_file_name(&i.pass[p], l->n_layers - 1, name);
            assert(!strchr(name, '/') && strstr(name, ".safetensors"));
            assert(strlen(i.pass[p].sha256[l->n_layers - 1]) == KVR_SHA256_HEX - 1);
        }
        kvr_trace_info_free(&i);
    } else {
        assert(!i.pass && strncmp(kvr_error(), "fuzz", 4) == 0);
    }
    json_decref(doc);
}

static void read_call(const uint8_t *bytes, size_t n)
{
    struct kvr_trace_pass pass = { .n_frames = 1, .clean = true, .queries = true };
    const struct kvr_trace_info info = { .layout = { 1, 2, 1, 4, 3, 1, false },
                                         .n_passes = 1,
                                         .pass = &pass };
    struct kvr_trace_report r = { 0 };
    struct kvr_trace_call c = { 0 };
    struct kvr_st *file;

    if (kvr_st_open_memory(&file, bytes, n, "fuzz") != KVR_OK)
        return;
    if (kvr_trace_call_read(&c, file, &info, 0) == KVR_OK) {
        assert(c.n_tok == 3 && kvr_tensor_count(&c.q) == 24 && kvr_tensor_count(&c.k) == 12);
        if (kvr_trace_call_check(&c, &r) != KVR_OK)
            assert(strncmp(kvr_error(), "fuzz: tensor '", 14) == 0);
        kvr_trace_call_close(&c);
    } else {
        assert(kvr_error()[0] && !c.file);
        kvr_st_close(&file);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    read_index(bytes, n);
    read_call(bytes, n);
    return 0;
}
