/* test_trace.c - a trace is read back as written, and refused if it is inconsistent. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/json.h"
#include "harness/core/rng.h"
#include "harness/workload/trace/check.h"
#include "harness/workload/trace/write.h"
#include "tests/suite.h"

enum { L = 2, H = 4, KV = 2, D = 8, S = 3, F = 2, T = S * F, CHUNKS = 3 };

static char dir[64];

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvr_trace_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static struct kvr_trace_info about(void)
{
    return (struct kvr_trace_info){
        .model = "tiny",
        .licence = "CC0-1.0",
        .source = "drawn",
        .text = "a disc",
        .seed = 7,
        .window_frames = 4,
        .layout = { L, H, KV, D, S, F, false },
        .rope = { true, false, { 4, 2, 2 }, 10000 },
    };
}

/* The tensors of one attention call. */
struct call {
    float q[T * H * D], out[T * H * D];
    kvr_bf16 k[T * KV * D], v[T * KV * D];
    int32_t position[T * 3];
};

static struct kvr_trace_call fill(struct call *c, int pass, int layer, int frame0, int frames)
{
    const int64_t n = (int64_t)frames * S;
    float kv[2 * T * KV * D];
    struct kvr_trace_call call = { .n_tok = n };

    kvr_normal(c->q, T * H * D, 1, KVR_RNG_TEST, (uint32_t)pass, (uint32_t)(4 * layer), 0);
    kvr_normal(c->out, T * H * D, 1, KVR_RNG_TEST, (uint32_t)pass, (uint32_t)(4 * layer + 1), 0);
    kvr_normal(kv, 2 * T * KV * D, 1, KVR_RNG_TEST, (uint32_t)pass, (uint32_t)(4 * layer + 2), 0);
    kvr_from_f32(c->k, KVR_BF16, kv, T * KV * D);
    kvr_from_f32(c->v, KVR_BF16, kv + T * KV * D, T * KV * D);
    for (int t = 0; t < T; t++) {
        c->position[3 * t] = frame0 + t / S;
        c->position[3 * t + 1] = 0;
        c->position[3 * t + 2] = t % S;
    }
    call.q = (struct kvr_tensor){ c->q, KVR_F32, 3, { n, H, D } };
    call.out = (struct kvr_tensor){ c->out, KVR_F32, 3, { n, H, D } };
    call.k = (struct kvr_tensor){ c->k, KVR_BF16, 3, { n, KV, D } };
    call.v = (struct kvr_tensor){ c->v, KVR_BF16, 3, { n, KV, D } };
    call.position = (struct kvr_tensor){ c->position, KVR_I32, 2, { n, 3 } };
    return call;
}

/* Chunk 0 has only keys and values, chunk 1 has two passes, chunk 2 has half the frames. */
static const struct kvr_trace_pass passes[] = {
    { .chunk = 0, .index = 0, .n_frames = F, .clean = true },
    { .chunk = 1, .index = 0, .n_frames = F, .queries = true },
    { .chunk = 1, .index = 1, .n_frames = F, .clean = true, .queries = true },
    { .chunk = 2, .index = 0, .n_frames = 1, .clean = true, .queries = true },
};
enum { N = sizeof passes / sizeof *passes };

static void write_trace(void)
{
    const struct kvr_trace_info info = about();
    struct kvr_trace_writer *w;
    struct call c;
    int64_t bytes;

    ck_assert_msg(kvr_trace_create(&w, dir, &info) == KVR_OK, "%s", kvr_error());
    for (int p = 0; p < N; p++)
        for (int l = 0; l < L; l++) {
            const struct kvr_trace_call call =
                fill(&c, p, l, passes[p].chunk * F, passes[p].n_frames);

            ck_assert_msg(kvr_trace_put(w, &passes[p], l, &call) == KVR_OK, "%s", kvr_error());
        }
    ck_assert_msg(kvr_trace_finish(&w, &bytes) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_null(w);
    ck_assert_int_gt(bytes, N * L * T);
}

static void same(const struct kvr_tensor *a, const struct kvr_tensor *b)
{
    ck_assert_int_eq(a->dtype, b->dtype);
    ck_assert_mem_eq(a->data, b->data, kvr_tensor_bytes(b));
}

START_TEST(reads_what_was_written)
{
    const struct kvr_trace_info *i;
    struct kvr_trace_report r;
    struct kvr_trace *t;
    struct call c;

    make_dir();
    write_trace();
    ck_assert_msg(kvr_trace_open(&t, dir) == KVR_OK, "%s", kvr_error());
    i = kvr_trace_info(t);
    ck_assert_str_eq(i->model, "tiny");
    ck_assert_str_eq(i->licence, "CC0-1.0");
    ck_assert_str_eq(i->text, "a disc");
    ck_assert_int_eq((int)i->seed, 7);
    ck_assert_int_eq(i->window_frames, 4);
    ck_assert_int_eq(i->n_passes, N);
    ck_assert_int_eq(i->n_chunks, CHUNKS);
    ck_assert_int_eq(i->n_frames, 2 * F + 1);
    ck_assert_int_eq(i->most_passes, 2);
    ck_assert(i->rope.rotary && i->rope.channels[0] == 4);
    for (int p = 0; p < N; p++)
        for (int l = 0; l < L; l++) {
            const struct kvr_trace_call want =
                fill(&c, p, l, passes[p].chunk * F, passes[p].n_frames);
            struct kvr_trace_call got;

            ck_assert_msg(kvr_trace_call_open(&got, t, p, l) == KVR_OK, "%s", kvr_error());
            ck_assert_int_eq(got.n_tok, want.n_tok);
            same(&got.k, &want.k);
            same(&got.v, &want.v);
            same(&got.position, &want.position);
            ck_assert_int_eq(got.q.data != NULL, p > 0);
            if (p > 0) {
                same(&got.q, &want.q);
                same(&got.out, &want.out);
            }
            kvr_trace_call_close(&got);
        }
    ck_assert_msg(kvr_trace_check(t, NULL, NULL, &r) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(r.files, N * L);
    ck_assert_int_eq(r.tokens, (2 * F + 1) * S);
    ck_assert_int_eq(r.outputs, (N - 1) * L);
    ck_assert(r.most[0] > 2 && r.most[0] < 6 && r.most[1] > 1 && r.most[2] > 1);
    kvr_trace_close(&t);
    remove_dir();
}
END_TEST

/* --- what is refused -------------------------------------------------------------------- */

static void refused(const char *pattern)
{
    struct kvr_trace_report r;
    struct kvr_trace *t;
    enum kvr_status st = kvr_trace_open(&t, dir);

    if (st == KVR_OK)
        st = kvr_trace_check(t, NULL, NULL, &r);
    kvr_trace_close(&t);
    ck_assert_msg(st != KVR_OK, "not refused: %s", pattern);
    ck_assert_msg(strstr(kvr_error(), pattern), "'%s' is not in '%s'", pattern, kvr_error());
}

static void shell(const char *format)
{
    char cmd[512];

    snprintf(cmd, sizeof cmd, format, dir, dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Overwrites the file of one attention call with the tensors of `call`, and an extra tensor named
 * `more` unless it is NULL. Updates the file's hash in the index. */
static void put_call(int pass, int layer, const struct kvr_trace_call *call, const char *more)
{
    struct kvr_st_item item[6] = {
        { "k", call->k }, { "v", call->v },     { "position", call->position },
        { "q", call->q }, { "out", call->out }, { more, call->k }
    };
    char name[KVR_TRACE_FILE_NAME], path[256], index[128], hex[KVR_SHA256_HEX];
    json_t *doc, *hashes;

    kvr_trace_file_name(&passes[pass], layer, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(index, sizeof index, "%s/index.json", dir);
    ck_assert_int_eq(kvr_st_write(path, item, more ? 6 : 5, NULL), KVR_OK);
    ck_assert_int_eq(kvr_sha256_file(path, hex), KVR_OK);
    ck_assert_int_eq(kvr_json_load(&doc, index), KVR_OK);
    hashes =
        json_object_get(json_array_get(json_object_get(doc, "passes"), (size_t)pass), "sha256");
    json_array_set_new(hashes, (size_t)layer, json_string(hex));
    ck_assert_int_eq(json_dump_file(doc, index, 0), 0);
    json_decref(doc);
}

START_TEST(refuses_damaged_folders)
{
    make_dir();
    refused("file not found: the folder is not a trace, or its recording was not finished");
    write_trace();
    shell("mv %s/c00001-p01-l0001.safetensors %s/../away.safetensors");
    refused("c00001-p01-l0001.safetensors: file not found");
    shell("ln -s ../away.safetensors %s/c00001-p01-l0001.safetensors");
    refused("c00001-p01-l0001.safetensors: file not found in the trace's folder");
    shell("mv %s/../away.safetensors %s/c00001-p01-l0001.safetensors");
    shell("touch %s/notes.txt");
    refused("notes.txt: the index of the trace does not list this file");
    shell("rm %s/notes.txt");
    shell("cp %s/c00000-p00-l0000.safetensors %s/c00000-p00-l0007.safetensors");
    refused("c00000-p00-l0007.safetensors: the index of the trace does not list this file");
    shell("rm %s/c00000-p00-l0007.safetensors");
    shell(
        "printf x | dd of=%s/c00000-p00-l0000.safetensors bs=1 seek=700 conv=notrunc 2>/dev/null");
    refused("c00000-p00-l0000.safetensors: the file's sha256 is");
    remove_dir();
}
END_TEST

START_TEST(refuses_damaged_calls)
{
    struct call c;
    struct kvr_trace_call call;

    make_dir();
    write_trace();
    call = fill(&c, 1, 1, F, F);
    c.k[(3 * KV + 1) * D + 5] = 0x7fc0;
    put_call(1, 1, &call, NULL);
    refused(
        "c00001-p00-l0001.safetensors: tensor 'k': token 3, head 1, channel 5 is nan; values must "
        "be finite");
    call = fill(&c, 1, 1, F, F);
    c.q[0] = INFINITY;
    put_call(1, 1, &call, NULL);
    refused("tensor 'q': token 0, head 0, channel 0 is inf; values must be finite");
    call = fill(&c, 1, 1, F, F);
    c.position[4] = -1;
    put_call(1, 1, &call, NULL);
    refused("tensor 'position': coordinate h of token 1 is -1, need 0..16777216");
    call = fill(&c, 1, 1, F + 1, F);
    put_call(1, 1, &call, NULL);
    refused("tensor 'position' differs from the one in the chunk's first pass and layer");
    call = fill(&c, 1, 1, F, F);
    call.v.shape[0] = T - 1;
    put_call(1, 1, &call, NULL);
    refused("tensor 'v': shape is [5, 2, 8], need [6, 2, 8]");
    call = fill(&c, 1, 1, F, F);
    call.v.dtype = KVR_I16;
    put_call(1, 1, &call, NULL);
    refused("tensor 'v' has type I16, need F32, F16 or BF16");
    call = fill(&c, 1, 1, F, F);
    put_call(1, 1, &call, "more");
    refused("6 tensors, but only q, k, v, position and out are allowed");
    put_call(0, 0, &call, NULL);
    refused("5 tensors, but only k, v and position are allowed");
    remove_dir();
}
END_TEST

/* Each test sets one entry of the index to an invalid value. `place` is the entry's path (keys and
 * array indices), `value` the JSON value, and `message` a part of the expected error message. */
static const struct {
    const char *place, *value, *message;
} lies[] = {
    { "format", "\"kvcache\"", "format is \"kvcache\", need \"kvtrace\"" },
    { "version", "2", "version" },
    { "model/licence", "\"\"", "model: licence is empty" },
    { "model/name", "\"a/b\"", "model: name is \"a/b\"" },
    { "text", "\"a\\u001b[2J\"", "text: contains a control character" },
    { "model/source", "\"a\\u009b2J\"", "source: contains a control character" },
    { "seed", "-1", "seed is -1" },
    { "window", "1", "window is 1 frames, need at least 2 (the sink and one chunk)" },
    { "layout/layers", "0", "layers" },
    { "layout/heads", "3", "heads is 3, need a multiple of kv_heads, 2" },
    { "layout/head_dim", "257", "head_dim" },
    { "layout/tokens_per_frame", "16777217", "tokens_per_frame" },
    { "layout/tokens_per_frame", "8388609",
      "a chunk of 2 frames of 8388609 tokens has 16777218 tokens, at most 16777216" },
    { "layout/causal", "1", "causal" },
    { "rope/pairs", "\"odd\"", "rope: pairs is \"odd\", need \"adjacent\"" },
    { "rope/base", "0", "base is 0" },
    { "rope/channels", "[4,4]", "channels has 2 axes" },
    { "rope/channels", "[4,4,2]", "channels sum to 10, but head_dim is 8" },
    { "rope/channels", "[3,2,2]", "channels[0] is 3, need an even number in 0..8" },
    { "passes", "[]", "0 forward passes, need 1" },
    { "passes/0/clean", "false", "passes[0]: a pass without queries must be a cache-update pass" },
    { "passes/1/chunk", "2",
      "passes[1]: the pass has chunk 2 and pass index 0, but must have chunk 1 and pass index 0" },
    { "passes/2/index", "3",
      "passes[2]: the pass has chunk 1 and pass index 3, but must have chunk 1 and pass index 1" },
    { "passes/2/frames", "1",
      "passes[2]: the pass has 1 frames, but earlier passes of the chunk have 2" },
    { "passes/0/frames", "1", "only the last chunk may be shorter" },
    { "passes/3/frames", "3", "frames" },
    { "passes/1/sha256", "[\"00\"]", "sha256 has 1 hashes, need 2" },
    { "passes/1/sha256", "[\"00\",\"11\"]", "sha256[0] is \"00\", need 64 hex digits" },
};

/* A chunk with queries in its noisy passes may have a clean pass without queries. */
START_TEST(clean_pass_needs_no_queries)
{
    struct kvr_trace_info i;
    char path[128];
    json_t *doc;

    make_dir();
    write_trace();
    snprintf(path, sizeof path, "%s/index.json", dir);
    ck_assert_int_eq(kvr_json_load(&doc, path), KVR_OK);
    json_object_set_new(json_array_get(json_object_get(doc, "passes"), 2), "queries", json_false());
    ck_assert_msg(kvr_trace_info_read(&i, doc, "here") == KVR_OK, "%s", kvr_error());
    ck_assert(i.pass[1].queries && i.pass[2].clean && !i.pass[2].queries);
    kvr_trace_info_free(&i);
    json_decref(doc);
    remove_dir();
}
END_TEST

START_TEST(refuses_lies)
{
    char path[128], place[64], *key, *save, *last = NULL;
    struct kvr_trace_info i;
    json_t *doc, *o, *value = json_loads(lies[_i].value, JSON_DECODE_ANY, NULL);

    make_dir();
    write_trace();
    snprintf(path, sizeof path, "%s/index.json", dir);
    ck_assert_int_eq(kvr_json_load(&doc, path), KVR_OK);
    snprintf(place, sizeof place, "%s", lies[_i].place);
    o = doc;
    for (key = strtok_r(place, "/", &save); key; key = strtok_r(NULL, "/", &save)) {
        if (last)
            o = json_is_array(o) ? json_array_get(o, (size_t)atoi(last)) : json_object_get(o, last);
        last = key;
    }
    ck_assert_int_eq(json_object_set_new(o, last, value), 0);
    ck_assert_int_eq(kvr_trace_info_read(&i, doc, "here"), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), lies[_i].message), "%s: %s = %s", kvr_error(), lies[_i].place,
                  lies[_i].value);
    ck_assert_ptr_null(i.pass);
    json_decref(doc);
    remove_dir();
}
END_TEST

START_TEST(writer_keeps_order)
{
    const struct kvr_trace_info info = about();
    struct kvr_trace_info path = about();
    struct kvr_trace_writer *w;
    struct kvr_trace_call call;
    struct call c;

    make_dir();
    call = fill(&c, 0, 0, 0, F);
    path.model = "models/tiny"; /* a path is no valid name */
    ck_assert_int_eq(kvr_trace_create(&w, dir, &path), KVR_EINVAL);
    ck_assert_int_eq(kvr_trace_create(&w, dir, &info), KVR_OK);
    ck_assert_int_eq(kvr_trace_put(w, &passes[0], 1, &call), KVR_EINVAL);
    ck_assert_int_eq(kvr_trace_put(w, &passes[0], 0, &call), KVR_OK);
    ck_assert_int_eq(kvr_trace_put(w, &passes[1], 0, &call), KVR_EINVAL);
    ck_assert_int_eq(kvr_trace_finish(&w, NULL), KVR_EINVAL);
    ck_assert_ptr_null(w);
    refused("file not found: the folder is not a trace, or its recording was not finished");
    ck_assert_int_eq(kvr_trace_create(&w, dir, &info), KVR_EINVAL); /* the folder is not empty */
    ck_assert_ptr_null(w);
    remove_dir();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *tc = tcase_create("trace");

    tcase_add_test(tc, reads_what_was_written);
    tcase_add_test(tc, refuses_damaged_folders);
    tcase_add_test(tc, refuses_damaged_calls);
    tcase_add_test(tc, clean_pass_needs_no_queries);
    tcase_add_loop_test(tc, refuses_lies, 0, (int)(sizeof lies / sizeof *lies));
    tcase_add_test(tc, writer_keeps_order);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
