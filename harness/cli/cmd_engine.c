/* cmd_engine.c - `kvreel engine check`: compares the engine with recorded tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/core/safetensors.h"
#include "harness/device/names.h"
#include "harness/engine/check.h"
#include "harness/engine/gemm.h"
#include "harness/engine/text/check_text.h"
#include "harness/engine/vae/check_vae.h"

struct engine_opts {
    bool json;
    const char *device, *compute;
};

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* `ok` is null for an entry that was not compared. */
static json_t *entry_json(const struct kvr_check_entry *e)
{
    bool compared = e->status == KVR_CHECK_OK || e->status == KVR_CHECK_FAIL;

    return json_pack("{s:s, s:o, s:o, s:o, s:s, s:s}", "name", e->name, "rel_l2",
                     real_or_null(e->rel_l2), "max_abs", real_or_null(e->max_abs), "ok",
                     compared ? json_boolean(e->status == KVR_CHECK_OK) : json_null(), "status",
                     kvr_check_status_name(e->status), "note", e->note);
}

static json_t *report_json(const struct kvr_check_report *r)
{
    json_t *tensors = json_array();

    for (int i = 0; i < r->n; i++)
        json_array_append_new(tensors, entry_json(&r->entries[i]));
    return json_pack("{s:b, s:o}", "ok", r->ok, "tensors", tensors);
}

/* Returns whether the folder has recorded (golden) rollouts of a model whose text input is tokens
 * of its own vocabulary. */
static bool has_prompts(const char *dir)
{
    char *golden = kvr_path_join(dir, "golden.safetensors");
    struct kvr_st *file = NULL;
    bool has = false;

    if (golden && kvr_path_exists(golden) && kvr_st_open(&file, golden) == KVR_OK)
        has = kvr_st_has(file, "prompt_tokens"); /* a damaged file counts as absent here; check()
                                                  * reports the damage */
    kvr_st_close(&file);
    free(golden);
    return has;
}

/* Compares the decoder, the text encoder and the diffusion network with their recorded tensors. If
 * the folder has no recorded network, the network is skipped, unless nothing else was recorded. The
 * report lists the network first. */
static enum kvr_status check(struct kvr_check_report *r, const char *dir,
                             const struct kvr_check_how *how)
{
    struct kvr_check_report others = { 0 };
    enum kvr_status st = kvr_check_vae(&others, dir, how);

    if (st == KVR_OK)
        st = kvr_check_text(&others, dir, how);
    if (st == KVR_OK && (others.n == 0 || kvr_engine_check_has_files(dir)))
        st = has_prompts(dir) ? kvr_golden_check(r, dir, how) : kvr_engine_check(r, dir, how);
    if (st == KVR_OK)
        st = kvr_check_append(r, &others);
    kvr_check_report_free(&others);
    if (st == KVR_OK)
        kvr_check_conclude(r);
    return st;
}

/* Reports on stderr why the check failed. */
static void print_failed(const struct kvr_check_report *r, const char *dir)
{
    int n = 0;

    for (int i = 0; i < r->n; i++)
        n += r->entries[i].status == KVR_CHECK_FAIL;
    if (n)
        fprintf(stderr, "kvreel: engine check: %s: %d of %d tensors are out of tolerance\n", dir, n,
                r->n);
    else
        fprintf(stderr,
                "kvreel: engine check: %s: no recorded tensor could be compared; see the columns "
                "`status` and `note`\n",
                dir);
}

static int run(const struct kvr_call *call)
{
    static const char *const columns[] = { "name", "rel_l2", "max_abs", "status", "note", NULL };
    const struct engine_opts *o = call->opts;
    struct kvr_check_how how = { .device = o->device };
    struct kvr_check_report r = { 0 };
    json_t *doc;
    enum kvr_status st;
    int code;

    if (strcmp(call->words[0], "check") != 0)
        return kvr_cli_fail(kvr_fail(
            KVR_EINVAL, "engine: unknown action '%s', need check; usage: kvreel engine check DIR",
            call->words[0]));
    st = kvr_compute_parse(o->compute, &how.compute);
    if (st == KVR_OK)
        st = check(&r, call->words[1], &how);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    code = r.ok ? KVR_EXIT_OK : KVR_EXIT_TOLERANCE;
    doc = report_json(&r);
    if (o->json) {
        code = kvr_cli_json(doc, code);
    } else {
        st = kvr_cli_table(json_object_get(doc, "tensors"), columns);
        json_decref(doc);
        code = kvr_cli_wrote(st, code);
    }
    if (!r.ok)
        print_failed(&r, call->words[1]);
    kvr_check_report_free(&r);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct engine_opts, device, "device", 0, "NAME", "cpu", KVR_DEVICE_HELP),
    KVR_ARG_TEXT(
        struct engine_opts, compute, "compute", 0, "TYPE", "f32",
        "compute type of linear layers, and type of the unquantized cache: " KVR_COMPUTE_HELP),
    KVR_ARG_FLAG(struct engine_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_engine = {
    .name = "engine",
    .summary = "compare the engine's results with recorded tensors",
    .usage = "check DIR [--device NAME] [--compute TYPE] [--json]",
    .examples = "  kvreel engine check tests/fixtures/wan_tiny\n"
                "  kvreel engine check models/nano              # its recorded rollouts\n"
                "  kvreel engine check tests/fixtures/wan_tiny --compute bf16 --device cuda\n"
                "  kvreel engine check tests/fixtures/wan_tiny --json | jq .ok\n",
    .details = "The exit code is 4 if a tensor is out of tolerance.\n",
    .args = args,
    .opts_size = sizeof(struct engine_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
