/* cmd_model.c - `kvreel model check`: identifies files of weights, and lists their tensors and what
 * is missing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/files/weights/gguf.h"
#include "harness/files/weights/kind.h"
#include "harness/files/weights/text.h"
#include "harness/plan/files.h"

struct model_opts {
    bool json;
};

static json_t *shape_json(const struct kvr_weight *t)
{
    json_t *shape = json_array();

    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return shape;
}

static enum kvr_status add_tensor(json_t *to, const struct kvr_weights *w, int i,
                                  const char *in_folder, int64_t *n_nonfinite)
{
    const struct kvr_weight *t = kvr_weights_at(w, i);
    const char *name = kvr_weights_model_name(w, i);
    char hex[KVR_SHA256_HEX];
    int64_t bad;
    json_t *row;

    KVR_TRY(kvr_weight_sha256(t, hex));
    KVR_TRY(kvr_weight_nonfinite(t, &bad));
    *n_nonfinite += bad;
    row = json_pack("{s:s, s:s, s:o, s:s, s:s*, s:s*}", "name", t->name, "dtype",
                    kvr_weight_type(t), "shape", shape_json(t), "sha256", hex, "model_name", name,
                    "file", t->file ? t->file : in_folder);
    if (!row)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while listing the file's tensors",
                        kvr_weights_path(w));
    if (bad)
        json_object_set_new(row, "nonfinite", json_integer(bad));
    json_array_append_new(to, row);
    return KVR_OK;
}

static json_t *memory_json(const struct kvr_weights *w, const struct kvr_kind_report *r)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "file_bytes", (json_int_t)kvr_weights_file_bytes(w),
                     "stored_bytes", (json_int_t)r->stored_bytes, "f32_bytes",
                     (json_int_t)(4 * r->n_params), "bf16_bytes", (json_int_t)(2 * r->n_params));
}

/* Reads the architecture's name from a GGUF file; tensor names do not identify it, because several
 * architectures use Llama's names. */
static enum kvr_status add_architecture(json_t *doc, const struct kvr_weights *w)
{
    struct kvr_gguf_string s;
    char text[64];

    if (!kvr_weights_gguf(w) ||
        kvr_gguf_text(kvr_weights_gguf(w), "general.architecture", &s) != KVR_OK || s.n == 0)
        return KVR_OK;
    snprintf(text, sizeof text, "%.*s", (int)(s.n < sizeof text ? s.n : sizeof text - 1), s.text);
    json_object_set_new(doc, "architecture", kvr_json_words(text));
    if (strcmp(json_string_value(json_object_get(doc, "kind")), "llama") == 0)
        json_object_set_new(doc, "kind", kvr_json_words(text));
    return kvr_json_losses() ? kvr_fail(KVR_ENOMEM, "%s: out of memory", kvr_weights_path(w))
                             : KVR_OK;
}

static enum kvr_status describe(json_t **out, const struct kvr_weights *w,
                                const struct kvr_kind_report *r, const char *in_folder)
{
    json_t *tensors = json_array(), *missing = json_array();
    enum kvr_status st = KVR_OK;
    int64_t nonfinite = 0;

    for (int i = 0; st == KVR_OK && i < kvr_weights_count(w); i++)
        st = add_tensor(tensors, w, i, in_folder, &nonfinite);
    for (int i = 0; i < r->n_missing; i++)
        json_array_append_new(missing, kvr_json_words(r->missing[i]));
    if (st != KVR_OK) {
        json_decref(tensors);
        json_decref(missing);
        return st;
    }
    *out = json_pack("{s:s, s:s, s:s, s:I, s:i, s:I, s:i, s:o, s:o, s:o}", "path",
                     kvr_weights_path(w), "format", kvr_weights_format_name(kvr_weights_format(w)),
                     "kind", r->kind, "parameters", (json_int_t)r->n_params, "layers", r->n_layers,
                     "nonfinite", (json_int_t)nonfinite, "collisions", kvr_weights_collisions(w),
                     "memory", memory_json(w, r), "missing", missing, "tensors", tensors);
    if (!*out)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", kvr_weights_path(w));
    st = add_architecture(*out, w);
    if (st != KVR_OK)
        json_decref(*out);
    return st;
}

static enum kvr_status check_file(json_t **out, const char *path, int n_layers,
                                  const char *in_folder)
{
    struct kvr_kind_report r = { 0 };
    struct kvr_weights *w;
    enum kvr_status st;

    KVR_TRY(kvr_weights_open(&w, path));
    st = kvr_kind_detect(&r, w, n_layers);
    if (st == KVR_OK)
        st = describe(out, w, &r, in_folder);
    kvr_kind_free(&r);
    kvr_weights_close(&w);
    return st;
}

/* --- A folder ------------------------------------------------------------------------------ */

/* Sets *n to the number of layers in config.json, or to 0 if the file or its key is missing. */
static enum kvr_status config_layers(const char *dir, bool *there, int *n)
{
    char *path = kvr_path_join(dir, "config.json");
    enum kvr_status st = KVR_OK;
    json_t *doc;

    *n = 0;
    if (!path)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    *there = kvr_path_exists(path);
    if (*there) {
        st = kvr_json_load(&doc, path);
        if (st == KVR_OK) {
            st = kvr_json_int_in_opt(doc, path, "num_layers", 1, 1024, n);
            json_decref(doc);
        }
    }
    free(path);
    return st;
}

static int64_t number(const json_t *doc, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(doc, key));
}

static void add_to(json_t *doc, const char *key, int64_t x)
{
    json_object_set_new(doc, key, json_integer((json_int_t)(number(doc, key) + x)));
}

static bool is_known(const json_t *doc)
{
    return strcmp(json_string_value(json_object_get(doc, "kind")), "tensors") != 0;
}

/* Adds one file's report to the folder's report: its tensors, missing tensors and kind of weights.
 */
static void join(json_t *whole, json_t *part)
{
    static const char *const sums[] = { "nonfinite", "collisions" };
    const char *kind = json_string_value(json_object_get(part, "kind"));

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        add_to(whole, sums[i], number(part, sums[i]));
    json_array_extend(json_object_get(whole, "tensors"), json_object_get(part, "tensors"));
    json_array_extend(json_object_get(whole, "missing"), json_object_get(part, "missing"));
    if (strcmp(kind, "wan dit") == 0)
        json_object_set_new(whole, "kind", json_string("wan folder"));
    else if (!is_known(whole))
        json_object_set(whole, "kind", json_object_get(part, "kind"));
    json_object_del(part, "tensors");
    json_array_append(json_object_get(whole, "files"), part);
}

/* Sums parameters and bytes over the files that are recognised as weights, which excludes files
 * such as recorded tensors. If no file is recognised, sums over all files. */
static void add_needs(json_t *whole)
{
    static const char *const bytes[] = { "file_bytes", "stored_bytes", "f32_bytes", "bf16_bytes" };
    json_t *part;
    size_t i;

    json_array_foreach(json_object_get(whole, "files"), i, part)
    {
        if (is_known(whole) && !is_known(part))
            continue;
        add_to(whole, "parameters", number(part, "parameters"));
        for (size_t j = 0; j < sizeof bytes / sizeof *bytes; j++)
            add_to(json_object_get(whole, "memory"), bytes[j],
                   number(json_object_get(part, "memory"), bytes[j]));
    }
}

static json_t *empty_folder(const char *dir)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:{s:i, s:i, s:i, s:i}, s:[], s:[], s:[]}",
                     "path", dir, "format", "folder", "kind", "tensors", "parameters", 0,
                     "nonfinite", 0, "collisions", 0, "memory", "file_bytes", 0, "stored_bytes", 0,
                     "f32_bytes", 0, "bf16_bytes", 0, "files", "missing", "tensors");
}

static enum kvr_status check_files(json_t *whole, char **files, int n, int n_layers)
{
    for (int i = 0; i < n; i++) {
        json_t *part = NULL;

        KVR_TRY(check_file(&part, files[i], n_layers, kvr_path_base(files[i])));
        join(whole, part);
        json_decref(part);
    }
    add_needs(whole);
    return KVR_OK;
}

/* Missing files of a model folder, listed by their paths in the folder. */
struct absent {
    const char *dir;
    json_t *list;
};

static void add_absent(void *ctx, const struct kvr_plan_file *f)
{
    const struct absent *a = ctx;
    const size_t n = strlen(a->dir);
    const char *within = strncmp(f->path, a->dir, n) == 0 ? f->path + n : f->path;
    char text[512], about[32] = "";

    if (f->there)
        return;
    if (f->bytes)
        snprintf(about, sizeof about, ", about %.1f MiB", (double)f->bytes / 1048576);
    snprintf(text, sizeof text, "%s: %s%s%s%s", within + strspn(within, "/"), f->what, about,
             *f->without ? "; without it " : "", f->without);
    json_array_append_new(a->list, kvr_json_words(text));
}

/* Adds the missing files of a model folder to the report. If the list of needed files cannot be
 * read from the folder's config.json, this is an error only for a Wan folder. The config.json of
 * other programs may lack this list. */
static enum kvr_status add_all_absent(json_t *whole, const char *dir)
{
    struct absent absent = { dir, json_array() };
    enum kvr_status st = kvr_plan_model_files(dir, add_absent, &absent);

    if (st == KVR_OK)
        json_array_extend(json_object_get(whole, "missing"), absent.list);
    json_decref(absent.list);
    return strcmp(json_string_value(json_object_get(whole, "kind")), "wan folder") == 0 ? st
                                                                                        : KVR_OK;
}

static enum kvr_status check_folder(json_t **out, const char *dir)
{
    enum kvr_status st;
    bool config;
    char **files = NULL;
    int n = 0, n_layers;

    KVR_TRY(config_layers(dir, &config, &n_layers));
    st = kvr_weights_in_folder(&files, &n, dir);
    if (st != KVR_OK && !(st == KVR_ENOTFOUND && config))
        return st;
    *out = empty_folder(dir);
    st = *out ? check_files(*out, files, n, n_layers)
              : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    for (int i = 0; i < n; i++)
        free(files[i]);
    free(files);
    if (st == KVR_OK && config)
        st = add_all_absent(*out, dir);
    if (st != KVR_OK) {
        json_decref(*out);
        *out = NULL;
    } else if (config) {
        if (n == 0 && json_array_size(json_object_get(*out, "missing")) == 0) {
            json_decref(*out);
            *out = NULL;
            st = kvr_fail(KVR_ENOTFOUND,
                          "%s: no weight file found in this folder; need *.safetensors, "
                          "*.safetensors.index.json, *.pt, *.pth or *.gguf",
                          dir);
        }
    } else if (strcmp(json_string_value(json_object_get(*out, "kind")), "wan folder") == 0) {
        json_array_append_new(json_object_get(*out, "missing"), json_string("config.json"));
    }
    return st;
}

/* --- Output as text ------------------------------------------------------------------------ */

static json_t *row_of(const json_t *tensor)
{
    const json_t *shape = json_object_get(tensor, "shape");
    const char *name = json_string_value(json_object_get(tensor, "name"));
    char shown[KVR_PRINTABLE], text[256] = "[";

    for (size_t i = 0; i < json_array_size(shape); i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, "%s%" JSON_INTEGER_FORMAT, i ? ", " : "",
                 json_integer_value(json_array_get(shape, i)));
    }
    return json_pack("{s:s, s:O, s:s+, s:s%}", "name", kvr_shown_string(shown, name), "dtype",
                     json_object_get(tensor, "dtype"), "shape", text, "]", "sha256",
                     json_string_value(json_object_get(tensor, "sha256")), (size_t)12);
}

static void print_head(const json_t *doc)
{
    const json_t *memory = json_object_get(doc, "memory");
    json_t *kind = json_object_get(doc, "kind");
    char shown[KVR_PRINTABLE];

    /* The path comes from the user and is printed as it is. Names from inside a GGUF file are
     * untrusted, so kvr_shown_string() makes them printable. */
    if (json_array_size(json_object_get(doc, "tensors")) == 0) {
        printf("%s: %s without weights\n",
               kvr_path_base(json_string_value(json_object_get(doc, "path"))),
               json_string_value(json_object_get(doc, "format")));
        return;
    }
    printf("%s: %s, %s, %" PRId64 " parameters, %zu tensors\n",
           kvr_path_base(json_string_value(json_object_get(doc, "path"))),
           json_string_value(json_object_get(doc, "format")),
           json_equal(kind, json_object_get(doc, "architecture"))
               ? kvr_shown_string(shown, json_string_value(kind))
               : json_string_value(kind),
           number(doc, "parameters"), json_array_size(json_object_get(doc, "tensors")));
    printf("weights in memory: %.1f MiB as F32, %.1f MiB as BF16; %.1f MiB on disk\n",
           (double)number(memory, "f32_bytes") / 1048576,
           (double)number(memory, "bf16_bytes") / 1048576,
           (double)number(memory, "file_bytes") / 1048576);
    if (number(doc, "nonfinite"))
        printf("NaN or infinite: %" PRId64 " values\n", number(doc, "nonfinite"));
    if (number(doc, "collisions"))
        printf("tensors with duplicate names: %" PRId64 "\n", number(doc, "collisions"));
}

static int print(json_t *doc)
{
    static const char *const columns[] = { "name", "dtype", "shape", "sha256", NULL };
    json_t *rows = json_array(), *x;
    enum kvr_status st;
    size_t i;

    print_head(doc);
    json_array_foreach(json_object_get(doc, "missing"), i, x)
    {
        printf("missing: %s\n", json_string_value(x));
    }
    json_array_foreach(json_object_get(doc, "tensors"), i, x)
    {
        json_array_append_new(rows, row_of(x));
    }
    st = json_array_size(rows) ? kvr_cli_table(rows, columns) : KVR_OK;
    json_decref(rows);
    json_decref(doc);
    return kvr_cli_wrote(st, KVR_EXIT_OK);
}

/* Removes a trailing slash, which shells add when they complete a folder. */
static enum kvr_status check_path(json_t **doc, const char *word)
{
    char *path = strdup(word);
    enum kvr_status st;

    if (!path)
        return kvr_fail(KVR_ENOMEM, "model: out of memory while reading %s", word);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    st = kvr_path_is_dir(path) ? check_folder(doc, path) : check_file(doc, word, 0, NULL);
    free(path);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct model_opts *o = call->opts;
    enum kvr_status st;
    json_t *doc = NULL;

    if (strcmp(call->words[0], "check") != 0)
        return kvr_cli_fail(kvr_fail(
            KVR_EINVAL, "model: unknown action '%.40s', need check; usage: kvreel model check PATH",
            call->words[0]));
    st = check_path(&doc, call->words[1]);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    return o->json ? kvr_cli_json(doc, KVR_EXIT_OK) : print(doc);
}

static const struct kvr_arg args[] = {
    KVR_ARG_FLAG(struct model_opts, json, "json", 0,
                 "print format, tensors, hashes and missing tensors or files as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_model = {
    .name = "model",
    .summary = "check that a weight file or model folder can be loaded",
    .usage = "check FILE|DIR [--json]",
    .examples = "  kvreel model check self_forcing_dmd.pt\n"
                "  kvreel model check Wan2.1-T2V-1.3B\n"
                "  kvreel model check models/nano --json | jq .missing\n",
    .details =
        "Supported formats are torch (.pt and .pth, zip and legacy), safetensors, GGUF,\n"
        "and the index.json of torch or safetensors shards. The file's content, not its name,\n"
        "determines its format.\n"
        "Nothing in a file is executed. The exit code is 2 if the file is refused; the\n"
        "message gives the reason.\n",
    .args = args,
    .opts_size = sizeof(struct model_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
