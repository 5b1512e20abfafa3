/* index.c - reads and checks index.json. Every number is checked against its bounds before it is
 * used. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/workload/trace/trace.h"

static const struct extent {
    const char *name; /* key in index.json */
    size_t at;        /* offset of an int in struct kvr_trace_layout */
    int most;
} extents[] = {
    { "layers", offsetof(struct kvr_trace_layout, n_layers), KVR_TRACE_MAX_LAYERS },
    { "heads", offsetof(struct kvr_trace_layout, n_heads), KVR_TRACE_MAX_HEADS },
    { "kv_heads", offsetof(struct kvr_trace_layout, n_kv_heads), KVR_TRACE_MAX_HEADS },
    { "head_dim", offsetof(struct kvr_trace_layout, head_dim), KVR_TRACE_MAX_HEAD_DIM },
    { "tokens_per_frame", offsetof(struct kvr_trace_layout, tokens_per_frame),
      KVR_TRACE_MAX_TOKENS },
    { "frames_per_chunk", offsetof(struct kvr_trace_layout, frames_per_chunk),
      KVR_TRACE_MAX_FRAMES },
};
enum { N_EXTENTS = sizeof extents / sizeof *extents };

/* Checks the extents that depend on each other. */
static enum kvr_status check_pairs(const struct kvr_trace_layout *l, const char *where)
{
    if (l->n_heads % l->n_kv_heads)
        return kvr_fail(KVR_EFORMAT, "%s: layout: heads is %d, need a multiple of kv_heads, %d",
                        where, l->n_heads, l->n_kv_heads);
    if ((int64_t)l->frames_per_chunk * l->tokens_per_frame > KVR_TRACE_MAX_TOKENS)
        return kvr_fail(KVR_EFORMAT,
                        "%s: layout: a chunk of %d frames of %d tokens has %lld tokens, at most %d "
                        "are allowed",
                        where, l->frames_per_chunk, l->tokens_per_frame,
                        (long long)l->frames_per_chunk * l->tokens_per_frame, KVR_TRACE_MAX_TOKENS);
    return KVR_OK;
}

enum kvr_status kvr_trace_layout_check(const struct kvr_trace_layout *l, const char *where)
{
    for (const struct extent *e = extents; e < extents + N_EXTENTS; e++) {
        const int value = *(const int *)((const char *)l + e->at);

        if (value < 1 || value > e->most)
            return kvr_fail(KVR_EFORMAT, "%s: layout: %s is %d, need 1..%d", where, e->name, value,
                            e->most);
    }
    return check_pairs(l, where);
}

static enum kvr_status read_layout(struct kvr_trace_layout *l, const json_t *doc, const char *where)
{
    json_t *o;

    KVR_TRY(kvr_json_object(doc, where, "layout", &o));
    for (const struct extent *e = extents; e < extents + N_EXTENTS; e++)
        KVR_TRY(kvr_json_int_in(o, where, e->name, 1, e->most, (int *)((char *)l + e->at)));
    KVR_TRY(kvr_json_bool(o, where, "causal", &l->causal));
    return check_pairs(l, where);
}

/* Fails because the value v of `key` is not allowed. The message shows v in JSON notation, which
 * has no control characters that a terminal would interpret. */
static enum kvr_status refuse(const json_t *v, const char *where, const char *key, const char *need)
{
    char *text = kvr_json_text(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    const enum kvr_status st =
        kvr_fail(KVR_EFORMAT, "%s: %s is %.80s, need %s", where, key, text ? text : "?", need);

    free(text);
    return st;
}

static enum kvr_status read_channels(struct kvr_trace_rope *r, const json_t *list, int head_dim,
                                     const char *where)
{
    int sum = 0;

    if (json_array_size(list) != 3)
        return kvr_fail(KVR_EFORMAT, "%s: rope: channels has %zu axes, need 3: t, h, w", where,
                        json_array_size(list));
    for (size_t i = 0; i < 3; i++) {
        const json_t *n = json_array_get(list, i);
        const json_int_t value = json_integer_value(n);

        if (!json_is_integer(n))
            return kvr_fail(
                KVR_EFORMAT,
                "%s: rope: channels[%zu] is not an integer, need an even number in 0..%d", where, i,
                head_dim);
        if (value < 0 || value > head_dim || value % 2)
            return kvr_fail(KVR_EFORMAT,
                            "%s: rope: channels[%zu] is %lld, need an even number in 0..%d", where,
                            i, (long long)value, head_dim);
        r->channels[i] = (int)value;
        sum += (int)value;
    }
    if (sum > head_dim)
        return kvr_fail(KVR_EFORMAT,
                        "%s: rope: channels sum to %d, but head_dim is %d; need at most head_dim",
                        where, sum, head_dim);
    return KVR_OK;
}

/* Reads the RoPE parameters. Without `rope`, or if it is null, the model has no RoPE. */
static enum kvr_status read_rope(struct kvr_trace_rope *r, const json_t *doc, int head_dim,
                                 const char *where)
{
    json_t *o = json_object_get(doc, "rope"), *channels;
    const char *pairs;

    *r = (struct kvr_trace_rope){ 0 };
    if (!o || json_is_null(o))
        return KVR_OK;
    KVR_TRY(kvr_json_object(doc, where, "rope", &o));
    KVR_TRY(kvr_json_string(o, where, "pairs", &pairs));
    KVR_TRY(kvr_json_array(o, where, "channels", &channels));
    KVR_TRY(kvr_json_real(o, where, "base", &r->base));
    if (strcmp(pairs, "adjacent") != 0 && strcmp(pairs, "halves") != 0)
        return refuse(json_object_get(o, "pairs"), where, "rope: pairs",
                      "\"adjacent\" or \"halves\"");
    if (!(r->base > 1 && r->base <= 1e12))
        return kvr_fail(KVR_EFORMAT, "%s: rope: base is %g, need more than 1 and at most 1e12",
                        where, r->base);
    r->rotary = true;
    r->halves = strcmp(pairs, "halves") == 0;
    return read_channels(r, channels, head_dim, where);
}

static enum kvr_status read_hashes(struct kvr_trace_pass *p, const json_t *o, int n_layers,
                                   const char *where)
{
    json_t *list;

    KVR_TRY(kvr_json_array(o, where, "sha256", &list));
    if (json_array_size(list) != (size_t)n_layers)
        return kvr_fail(KVR_EFORMAT, "%s: sha256 has %zu hashes, need %d: one per layer", where,
                        json_array_size(list), n_layers);
    p->sha256 = calloc((size_t)n_layers, sizeof *p->sha256);
    if (!p->sha256)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d layers", where,
                        n_layers);
    for (int l = 0; l < n_layers; l++) {
        const json_t *hash = json_array_get(list, (size_t)l);
        const char *hex = json_string_value(hash);
        char key[24];

        snprintf(key, sizeof key, "sha256[%d]", l);
        if (!hex || strlen(hex) != KVR_SHA256_HEX - 1 ||
            strspn(hex, "0123456789abcdef") != KVR_SHA256_HEX - 1)
            return refuse(hash, where, key, "64 hex digits (0-9, a-f)");
        memcpy(p->sha256[l], hex, KVR_SHA256_HEX);
    }
    return KVR_OK;
}

/* Checks that the chunk, the pass index and the number of frames of pass p may follow those of the
 * pass `before`. If p is the trace's first pass, `before` is NULL. */
static enum kvr_status check_order(const struct kvr_trace_pass *p,
                                   const struct kvr_trace_pass *before,
                                   const struct kvr_trace_layout *l, const char *where)
{
    const int chunk = before ? before->chunk + before->clean : 0;
    const int index = before && !before->clean ? before->index + 1 : 0;

    if (p->chunk != chunk || p->index != index)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: the pass has chunk %d and pass index %d, but must have chunk %d and pass index %d",
            where, p->chunk, p->index, chunk, index);
    if (p->index > 0 && p->n_frames != before->n_frames)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the pass has %d frames, but earlier passes of the chunk have %d",
                        where, p->n_frames, before->n_frames);
    if (p->index == 0 && before && before->n_frames < l->frames_per_chunk)
        return kvr_fail(KVR_EFORMAT,
                        "%s: only the last chunk may be shorter, but an earlier chunk has %d "
                        "frames instead of %d",
                        where, before->n_frames, l->frames_per_chunk);
    if (!p->queries && !p->clean)
        return kvr_fail(KVR_EFORMAT,
                        "%s: a pass without queries must be a cache-update pass (clean: true)",
                        where);
    return KVR_OK;
}

static enum kvr_status read_pass(struct kvr_trace_pass *p, const json_t *o,
                                 const struct kvr_trace_pass *before,
                                 const struct kvr_trace_layout *l, const char *where)
{
    if (!json_is_object(o))
        return refuse(o, where, "the forward pass", "a JSON object");
    p->queries = true;
    KVR_TRY(kvr_json_int_in(o, where, "chunk", 0, KVR_TRACE_MAX_FRAMES, &p->chunk));
    KVR_TRY(kvr_json_int_in(o, where, "index", 0, KVR_TRACE_MAX_PASSES - 1, &p->index));
    KVR_TRY(kvr_json_int_in(o, where, "frames", 1, l->frames_per_chunk, &p->n_frames));
    KVR_TRY(kvr_json_bool(o, where, "clean", &p->clean));
    KVR_TRY(kvr_json_bool_opt(o, where, "queries", &p->queries));
    KVR_TRY(check_order(p, before, l, where));
    if ((int64_t)p->chunk * l->frames_per_chunk + p->n_frames > KVR_TRACE_MAX_FRAMES)
        return kvr_fail(
            KVR_EFORMAT, "%s: up to this pass, the trace has %lld frames, at most %d are allowed",
            where, (long long)p->chunk * l->frames_per_chunk + p->n_frames, KVR_TRACE_MAX_FRAMES);
    p->frame0 = p->chunk * l->frames_per_chunk;
    if ((int64_t)(p->frame0 + p->n_frames) * l->tokens_per_frame > KVR_TRACE_MAX_TOKENS)
        return kvr_fail(KVR_EFORMAT,
                        "%s: up to this pass, the trace has %lld tokens, at most %d are allowed",
                        where, (long long)(p->frame0 + p->n_frames) * l->tokens_per_frame,
                        KVR_TRACE_MAX_TOKENS);
    return read_hashes(p, o, l->n_layers, where);
}

static enum kvr_status read_passes(struct kvr_trace_info *out, const json_t *doc, const char *where)
{
    char location[300];
    json_t *list;

    KVR_TRY(kvr_json_array(doc, where, "passes", &list));
    if (json_array_size(list) < 1 || json_array_size(list) > KVR_TRACE_MAX_FRAMES)
        return kvr_fail(KVR_EFORMAT, "%s: the trace has %zu forward passes, need 1..%d", where,
                        json_array_size(list), KVR_TRACE_MAX_FRAMES);
    out->pass = calloc(json_array_size(list), sizeof *out->pass);
    if (!out->pass)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %zu passes", where,
                        json_array_size(list));
    while ((size_t)out->n_passes < json_array_size(list)) {
        struct kvr_trace_pass *p = &out->pass[out->n_passes];

        snprintf(location, sizeof location, "%.250s: passes[%d]", where, out->n_passes);
        out->n_passes++;
        KVR_TRY(read_pass(p, json_array_get(list, (size_t)out->n_passes - 1),
                          out->n_passes > 1 ? p - 1 : NULL, &out->layout, location));
        out->n_chunks = p->chunk + 1;
        out->n_frames = p->frame0 + p->n_frames;
        if (p->index + 1 > out->most_passes)
            out->most_passes = p->index + 1;
    }
    return KVR_OK;
}

/* Refuses text with control characters (C0 and C1), which a terminal would interpret. */
static enum kvr_status check_plain(const char *text, const char *key, const char *where)
{
    const unsigned char *s = (const unsigned char *)text;

    for (; *s; s++)
        if (*s < ' ' || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
            return kvr_fail(KVR_EFORMAT, "%s: %s: contains a control character (U+%04X at byte %d)",
                            where, key, *s == 0xc2 ? s[1] : *s, (int)((const char *)s - text));
    return KVR_OK;
}

static enum kvr_status read_about(struct kvr_trace_info *out, const json_t *doc, const char *where)
{
    const char *format;
    int64_t seed = 0;
    int version;
    json_t *m;

    out->source = out->text = "";
    KVR_TRY(kvr_json_string(doc, where, "format", &format));
    if (strcmp(format, "kvtrace") != 0)
        return refuse(json_object_get(doc, "format"), where, "format", "\"kvtrace\"");
    KVR_TRY(kvr_json_int_in(doc, where, "version", 1, KVR_TRACE_VERSION, &version));
    KVR_TRY(kvr_json_object(doc, where, "model", &m));
    KVR_TRY(kvr_json_string(m, where, "name", &out->model));
    KVR_TRY(kvr_json_string(m, where, "licence", &out->licence));
    KVR_TRY(kvr_json_string_opt(m, where, "source", &out->source));
    KVR_TRY(kvr_json_string_opt(doc, where, "text", &out->text));
    KVR_TRY(kvr_json_int_opt(doc, where, "seed", &seed));
    KVR_TRY(
        kvr_json_int_in_opt(doc, where, "window", 0, KVR_TRACE_MAX_FRAMES, &out->window_frames));
    KVR_TRY(kvr_json_int_in_opt(doc, where, "sink", 0, KVR_TRACE_MAX_FRAMES, &out->sink_frames));
    if (seed < 0)
        return kvr_fail(KVR_EFORMAT, "%s: seed is %lld, need 0 or more", where, (long long)seed);
    if (!out->model[0] || !out->licence[0])
        return kvr_fail(KVR_EFORMAT, "%s: model: %s is empty; need the model's %s, or 'unknown'",
                        where, out->model[0] ? "licence" : "name",
                        out->model[0] ? "licence" : "name");
    if (strlen(out->model) > 64 || strpbrk(out->model, "/\\"))
        return refuse(json_object_get(m, "name"), where, "model: name",
                      "at most 64 characters, and no slash or backslash");
    KVR_TRY(check_plain(out->model, "name", where));
    KVR_TRY(check_plain(out->licence, "licence", where));
    KVR_TRY(check_plain(out->source, "source", where));
    KVR_TRY(check_plain(out->text, "text", where));
    out->seed = (uint64_t)seed;
    return KVR_OK;
}

enum kvr_status kvr_trace_info_read(struct kvr_trace_info *out, const json_t *doc,
                                    const char *where)
{
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    if (!json_is_object(doc))
        return refuse(doc, where, "the index of the trace", "a JSON object");
    st = read_about(out, doc, where);
    if (st == KVR_OK)
        st = read_layout(&out->layout, doc, where);
    if (st == KVR_OK)
        st = read_rope(&out->rope, doc, out->layout.head_dim, where);
    if (st == KVR_OK)
        st = read_passes(out, doc, where);
    if (st == KVR_OK && out->window_frames &&
        out->window_frames < out->layout.frames_per_chunk + out->sink_frames)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: window is %d frames, need at least %d (the sink and one chunk), or 0 "
                      "for no window",
                      where, out->window_frames, out->layout.frames_per_chunk + out->sink_frames);
    if (st != KVR_OK)
        kvr_trace_info_free(out);
    return st;
}

void kvr_trace_info_free(struct kvr_trace_info *i)
{
    for (int p = 0; i->pass && p < i->n_passes; p++)
        free(i->pass[p].sha256);
    free(i->pass);
    memset(i, 0, sizeof *i);
}
