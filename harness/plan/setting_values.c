/* setting_values.c - checks the values of settings against the bounds and words in settings.def. */
#include "harness/plan/setting_values.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/join.h"
#include "harness/core/opts.h"
#include "harness/device/names.h"
#include "harness/engine/model.h"
#include "harness/plan/baselines.h"
#include "harness/workload/workload.h"

enum { MAX_LIST = 1000 };

static_assert(KVR_MAX_STEPS == 64, "settings.def states 64 as the maximum of model_steps");
static_assert(KVR_N_SETTINGS <= 64, "zipped axes are bits of a uint64_t");

const char *const kvr_run_kinds[] = { "bench", "probe", NULL };
static const char *const kvr_window_words[] = { "model", NULL };        /* KVR_WINDOW_OF_MODEL */
static const char *const kvr_sink_words[] = { "model", NULL };          /* KVR_SINK_OF_MODEL */
static const char *const kvr_offset_words[] = { "model", NULL };        /* KVR_OFFSET_OF_MODEL */
static const char *const kvr_control_words[] = { "auto", NULL };        /* KVR_CONTROL_AUTO */
static const char *const kvr_compute_words[] = { "f32", "bf16", NULL }; /* engine/gemm.h */

static const char *const *const words[KVR_N_SETTINGS] = {
#define SETTING(name, type, def, lo, hi, words, ...) [KVR_SET_##name] = words,
#include "harness/store/settings.def"
#undef SETTING
};

const char *const *kvr_setting_words(enum kvr_setting_id id)
{
    return words[id];
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "config: out of memory");
}

/* Functions that accept texts besides the listed words of a setting, such as a list of
 * timesteps. */
static bool (*const spelt[KVR_N_SETTINGS])(const char *text) = {
    [KVR_SET_schedule] = kvr_schedule_is_list,
    [KVR_SET_sampler] = kvr_sampler_is_spelt,
};

/* --- one value -------------------------------------------------------------------------- */

static int find_word(const char *const *w, const char *text)
{
    for (int i = 0; w && w[i]; i++)
        if (strcmp(w[i], text) == 0)
            return i;
    return -1;
}

static enum kvr_status parse_word(enum kvr_setting_id id, const struct kvr_yaml_node *n,
                                  long long *out)
{
    const char *text, *near;
    char list[256];

    assert(words[id]); /* every setting of type WORD in settings.def has a list of words */
    KVR_TRY(kvr_yaml_string(n, &text));
    *out = find_word(words[id], text);
    /* Text that is not a listed word (*out = KVR_WORD_FREE_TEXT) is valid if spelt[id] accepts it. */
    if (*out >= 0 || (spelt[id] && spelt[id](text)))
        return KVR_OK;
    near = kvr_nearest(text, words[id]);
    return kvr_yaml_fail(n, "unknown %s '%s', need %s%s%s%s", kvr_setting_rows[id].name, text,
                         kvr_join_or(list, sizeof list, words[id]), near ? "; did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
}

static enum kvr_status parse(enum kvr_setting_id id, const struct kvr_yaml_node *n, long long *out)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[id];
    const int word = n->kind == KVR_YAML_SCALAR ? find_word(words[id], n->text) : -1;
    bool flag;

    if (r->type == KVR_SET_WORD)
        return parse_word(id, n, out);
    if (r->type == KVR_SET_FLAG) {
        KVR_TRY(kvr_yaml_bool(n, &flag));
        *out = flag;
        return KVR_OK;
    }
    if (word >= 0) {
        *out = -1 - word;
        return KVR_OK;
    }
    return id == KVR_SET_timeout_s ? kvr_yaml_seconds(n, r->lo, r->hi, out)
                                   : kvr_yaml_int(n, r->lo, r->hi, out);
}

static long long default_of(enum kvr_setting_id id)
{
    const char *def = kvr_setting_rows[id].def;
    const int word = find_word(words[id], def);

    if (kvr_setting_rows[id].type == KVR_SET_WORD)
        return word;
    return word >= 0 ? -1 - word : strcmp(def, "true") == 0 ? 1 : strtoll(def, NULL, 10);
}

/* --- a list of values ------------------------------------------------------------------- */

static bool same_value(const struct kvr_setting_values *v, enum kvr_setting_type type, int i, int j)
{
    const bool is_text = type == KVR_SET_WORD && v->value[i] == KVR_WORD_FREE_TEXT;

    return v->value[i] == v->value[j] && (!is_text || strcmp(v->at[i]->text, v->at[j]->text) == 0);
}

static enum kvr_status read_row(struct kvr_setting_values *v, enum kvr_setting_id id,
                                const struct kvr_yaml_node *root)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[id];
    const struct kvr_yaml_node *n = kvr_yaml_get(root, r->name);
    const bool list = n && (r->flags & KVR_SET_AXIS);
    const int count = list ? kvr_yaml_count(n) : 1;

    v->is_set = n != NULL;
    if (!n && !r->def)
        return KVR_OK;
    if (count < 1 || count > MAX_LIST)
        return kvr_yaml_fail(n, "%s: need a list of 1..%d values, got %d", r->name, MAX_LIST,
                             count);
    v->value = calloc((size_t)count, sizeof *v->value);
    v->at = calloc((size_t)count, sizeof *v->at);
    if (!v->value || !v->at)
        return no_memory();
    v->n = count;
    for (int i = 0; i < count; i++) {
        v->at[i] = list ? kvr_yaml_at(n, i) : n ? n : root;
        if (n)
            KVR_TRY(parse(id, v->at[i], &v->value[i]));
        else
            v->value[i] = default_of(id);
        for (int j = 0; j < i; j++)
            if (same_value(v, r->type, i, j))
                return kvr_yaml_fail(v->at[i], "%s: '%s' is listed twice", r->name, v->at[i]->text);
    }
    return KVR_OK;
}

enum kvr_status kvr_setting_values_read(struct kvr_setting_values v[KVR_N_SETTINGS],
                                        const struct kvr_yaml_node *root)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        KVR_TRY(read_row(&v[i], (enum kvr_setting_id)i, root));
    return KVR_OK;
}

void kvr_setting_values_free(struct kvr_setting_values v[KVR_N_SETTINGS])
{
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        free(v[i].value);
        free(v[i].at);
    }
    memset(v, 0, KVR_N_SETTINGS * sizeof *v);
}

void kvr_setting_choose(struct kvr_settings *s, enum kvr_setting_id id,
                        const struct kvr_setting_values *v, int i)
{
    const long long value = v->n ? v->value[i] : 0;

    const char *word = NULL;

    if (v->n && kvr_setting_rows[id].type == KVR_SET_WORD)
        word = value == KVR_WORD_FREE_TEXT ? v->at[i]->text : words[id][value];
    kvr_setting_put(s, id, value, word);
}

/* --- zip -------------------------------------------------------------------------------- */

static enum kvr_status find_axis(const struct kvr_yaml_node *n, int *out)
{
    const char *axes[KVR_N_SETTINGS + 1] = { NULL }, *name, *near;
    int n_axes = 0;

    KVR_TRY(kvr_yaml_string(n, &name));
    for (*out = 0; *out < KVR_N_SETTINGS; ++*out) {
        if (!(kvr_setting_rows[*out].flags & KVR_SET_AXIS))
            continue;
        if (strcmp(kvr_setting_rows[*out].name, name) == 0)
            return KVR_OK;
        axes[n_axes++] = kvr_setting_rows[*out].name;
    }
    near = kvr_nearest(name, axes);
    return kvr_yaml_fail(n,
                         "zip: '%s' is not an axis (a setting that may have several values)%s%s%s",
                         name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum kvr_status kvr_zip_read(uint64_t *set, const struct kvr_setting_values v[KVR_N_SETTINGS],
                             const struct kvr_yaml_node *root)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(root, "zip");
    int length = -1, axis;

    *set = 0;
    if (n && n->kind != KVR_YAML_LIST)
        return kvr_yaml_fail(n, "zip: need a list of axes, as in [frames, window], found %s",
                             kvr_yaml_kind_name(n));
    for (int i = 0; n && i < n->n; i++) {
        KVR_TRY(find_axis(n->item[i], &axis));
        if (length >= 0 && v[axis].n != length)
            return kvr_yaml_fail(
                n->item[i],
                "zip: '%s' has %d values, but the axes before it have %d; need equal numbers",
                kvr_setting_rows[axis].name, v[axis].n, length);
        length = v[axis].n;
        *set |= (uint64_t)1 << axis;
    }
    return KVR_OK;
}
