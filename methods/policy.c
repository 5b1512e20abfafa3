/* policy.c - finds tiers and retentions by name, and parses their text form
 * "name(option=value,...)". */
#include "methods/policy.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"

#define TIERS(name) extern const struct kvr_tiers kvr_tiers_##name;
#include "methods/tiers/tiers.def"
#undef TIERS

#define TIERS(name) &kvr_tiers_##name,
const struct kvr_tiers *const kvr_tiers_parts[] = {
#include "methods/tiers/tiers.def"
    NULL,
};
#undef TIERS

#define RETENTION(name) extern const struct kvr_retention kvr_retention_##name;
#include "methods/retention/retention.def"
#undef RETENTION

#define RETENTION(name) &kvr_retention_##name,
const struct kvr_retention *const kvr_retention_parts[] = {
#include "methods/retention/retention.def"
    NULL,
};
#undef RETENTION

/* only the first 255 names are compared to suggest a similar name */
enum { TEXT_MAX = 512, MAX_NAMES = 255 };

/* The name and the options in the text "name(option=value,...)" of tiers or a retention. Both point
 * into `copy`, a copy of the text. */
struct words {
    char copy[TEXT_MAX];
    const char *name; /* name of the tiers or retention, or "" if the text is empty */
    const char *args; /* the text between the parentheses, or NULL without parentheses */
};

static enum kvr_status split(struct words *w, const char *axis, const char *text)
{
    char *name, *open, *close;

    if (strlen(text) >= sizeof w->copy)
        return kvr_fail(KVR_EINVAL, "%s: the text has %zu characters, at most %zu are allowed",
                        axis, strlen(text), sizeof w->copy - 1);
    strcpy(w->copy, text);
    name = kvr_trim(w->copy);
    open = strchr(name, '(');
    w->args = NULL;
    if (open) {
        close = strrchr(open, ')');
        if (!close || close[1])
            return kvr_fail(KVR_EINVAL,
                            "%s: '%s': '(' needs a ')' at the end, as in NAME(OPTION=VALUE)", axis,
                            name);
        *open = *close = 0;
        w->args = open + 1;
        name = kvr_trim(name);
        if (!*name)
            return kvr_fail(KVR_EINVAL,
                            "%s: '%s': a name is missing before '(', as in NAME(OPTION=VALUE)",
                            axis, text);
    }
    w->name = name;
    return KVR_OK;
}

static enum kvr_status fail_unknown(const char *axis, const char *name, const char *const *names)
{
    const char *near = kvr_nearest(name, names);
    char known[TEXT_MAX];

    return kvr_fail(KVR_ENOTFOUND, "%s: unknown name '%s'%s%s%s; need one of %s", axis, name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                    kvr_join_all(known, sizeof known, names));
}

/* Allocates the options of tiers or a retention, sets the defaults, and parses w->args. Then calls
 * `check` if `check` is not NULL. */
static enum kvr_status read_options(void **out, const char *axis, const struct words *w,
                                    const struct kvr_opt *table, size_t size,
                                    enum kvr_status (*check)(const void *opts))
{
    void *opts = calloc(1, size ? size : 1);
    enum kvr_status st = KVR_OK;

    if (!opts)
        return kvr_fail(KVR_ENOMEM, "%s: %s: out of memory", axis, w->name);
    kvr_opts_defaults(table, opts);
    if (w->args)
        st = kvr_opts_parse(table, opts, w->args);
    if (st == KVR_OK && check)
        st = check(opts);
    if (st != KVR_OK) {
        free(opts);
        return kvr_fail_prefix(st == KVR_ENOMEM ? st : KVR_EINVAL, "%s: %s", axis, w->name);
    }
    *out = opts;
    return KVR_OK;
}

enum kvr_status kvr_tiers_open(struct kvr_tiers_use *out, const char *text)
{
    const char *names[MAX_NAMES + 1] = { NULL };
    const struct kvr_tiers *p;
    struct words w;

    *out = (struct kvr_tiers_use){ 0 };
    KVR_TRY(split(&w, "tiers", text ? text : ""));
    if (!*w.name)
        return KVR_OK;
    for (int i = 0; (p = kvr_tiers_at(i)) != NULL; i++) {
        if (!strcmp(p->name, w.name)) {
            KVR_TRY(read_options(&out->opts, "tiers", &w, p->options, p->opts_size, p->check));
            out->part = p;
            return KVR_OK;
        }
        if (i < MAX_NAMES)
            names[i] = p->name;
    }
    return fail_unknown("tiers", w.name, names);
}

enum kvr_status kvr_retention_open(struct kvr_retention_use *out, const char *text)
{
    const char *names[MAX_NAMES + 1] = { NULL };
    const struct kvr_retention *p;
    struct words w;

    *out = (struct kvr_retention_use){ 0 };
    KVR_TRY(split(&w, "retention", text ? text : ""));
    if (!*w.name)
        return KVR_OK;
    for (int i = 0; (p = kvr_retention_at(i)) != NULL; i++) {
        if (!strcmp(p->name, w.name)) {
            KVR_TRY(read_options(&out->opts, "retention", &w, p->options, p->opts_size, p->check));
            out->part = p;
            return KVR_OK;
        }
        if (i < MAX_NAMES)
            names[i] = p->name;
    }
    return fail_unknown("retention", w.name, names);
}

int kvr_tiers_max_chunks(const struct kvr_tiers_use *u)
{
    return u->part && u->part->together ? u->part->together(u->opts) : 1;
}

void kvr_tiers_close(struct kvr_tiers_use *u)
{
    free(u->opts);
    *u = (struct kvr_tiers_use){ 0 };
}

void kvr_retention_close(struct kvr_retention_use *u)
{
    free(u->opts);
    *u = (struct kvr_retention_use){ 0 };
}

bool kvr_retention_thins(const struct kvr_retention_use *u, struct kvr_thin_needs *out)
{
    *out = (struct kvr_thin_needs){ 0 };
    if (!u->part || !u->part->thin)
        return false;
    if (u->part->needs)
        u->part->needs(u->opts, out);
    return true;
}

const char *kvr_retention_warning(const struct kvr_retention_use *u, int n_query_heads, int n_heads,
                                  int head_dim)
{
    return u->part && u->part->warning ? u->part->warning(u->opts, n_query_heads, n_heads, head_dim)
                                       : NULL;
}

/* Copies `bytes` of device memory at *p to the host and points *p at the copy. */
static enum kvr_status copy_to_host(struct kvr_dev *dev, const float **p, size_t bytes,
                                    struct kvr_buf *to)
{
    KVR_TRY(kvr_buf_alloc(to, kvr_dev_host(dev), KVR_MEM_SCRATCH, bytes));
    KVR_TRY(kvr_dev_get(dev, to->p, *p, bytes));
    *p = to->p;
    return KVR_OK;
}

/* Copies ctx->k and ctx->v to the host. Both are NULL if only the number of retained tokens is
 * needed. */
static enum kvr_status fetch(const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                             struct kvr_buf *k, struct kvr_buf *v)
{
    const int64_t n = (ctx->study ? ctx->n_tok : ctx->n_active) - ctx->new0;
    const size_t bytes = (size_t)(n * ctx->n_heads * ctx->head_dim) * sizeof *ctx->k;

    KVR_TRY(kvr_dev_sync(dev)); /* returns errors of earlier kernel launches */
    if (ctx->k) {
        KVR_TRY(kvr_buf_alloc(k, kvr_dev_host(dev), KVR_MEM_SCRATCH, bytes));
        KVR_TRY(kvr_dev_get(dev, k->p, ctx->k, bytes));
    }
    if (ctx->v) {
        KVR_TRY(kvr_buf_alloc(v, kvr_dev_host(dev), KVR_MEM_SCRATCH, bytes));
        KVR_TRY(kvr_dev_get(dev, v->p, ctx->v, bytes));
    }
    return KVR_OK;
}

static enum kvr_status ask(kvr_assign_fn *assign, bool cuda, const void *opts,
                           const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                           struct kvr_policy_state *state, uint8_t *map)
{
    struct kvr_policy_ctx on_host = *ctx;
    struct kvr_buf k = { 0 }, v = { 0 };
    enum kvr_status st;

    if (cuda || kvr_dev_in_host(dev))
        return assign(opts, ctx, dev, state, map);
    st = fetch(ctx, dev, &k, &v);
    on_host.k = k.p;
    on_host.v = v.p;
    if (st == KVR_OK)
        st = assign(opts, &on_host, kvr_dev_host(dev), state, map);
    kvr_buf_free(&k);
    kvr_buf_free(&v);
    return st;
}

enum kvr_status kvr_tiers_assign(const struct kvr_tiers_use *u, const struct kvr_policy_ctx *ctx,
                                 struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map)
{
    return ask(u->part->assign, u->part->cuda, u->opts, ctx, dev, state, map);
}

enum kvr_status kvr_retention_assign(const struct kvr_retention_use *u,
                                     const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                     struct kvr_policy_state *state, uint8_t *map)
{
    return ask(u->part->assign, u->part->cuda, u->opts, ctx, dev, state, map);
}

bool kvr_retention_observes(const struct kvr_retention_use *u, const struct kvr_policy_state *state,
                            int64_t new0)
{
    struct kvr_thin_needs needs;

    return kvr_retention_thins(u, &needs) && needs.columns &&
           (!u->part->observes || u->part->observes(u->opts, state, new0));
}

int64_t kvr_thin_key0(const struct kvr_thin_needs *n, int64_t new0, int tokens_per_frame)
{
    const int64_t frame = new0 / tokens_per_frame - n->key_frames;

    return n->key_frames && !n->all_values && frame > 0 ? frame * tokens_per_frame : 0;
}

enum kvr_status kvr_retention_thin(const struct kvr_retention_use *u,
                                   const struct kvr_policy_ctx *ctx, struct kvr_dev *dev,
                                   struct kvr_policy_state *state, uint8_t *keep)
{
    const size_t width = (size_t)ctx->n_heads * (size_t)ctx->head_dim * sizeof *ctx->k;
    struct kvr_policy_ctx on_host = *ctx;
    const size_t asked = (size_t)(ctx->n_active - ctx->new0) * (size_t)ctx->n_query_heads *
                         (size_t)ctx->head_dim * sizeof *ctx->q;
    struct kvr_buf k = { 0 }, v = { 0 }, q = { 0 }, all = { 0 }, all_v = { 0 };
    struct kvr_thin_needs needs;
    enum kvr_status st = KVR_OK;

    kvr_retention_thins(u, &needs);
    on_host.v = needs.values ? ctx->v : NULL;
    on_host.k = needs.keys ? ctx->k : NULL;
    if (!kvr_dev_in_host(dev)) {
        KVR_TRY(kvr_dev_sync(dev)); /* returns errors of earlier kernel launches */
        if (on_host.k)
            st = copy_to_host(dev, &on_host.k, (size_t)(ctx->n_active - ctx->new0) * width, &k);
        if (st == KVR_OK && on_host.v)
            st = copy_to_host(dev, &on_host.v, (size_t)(ctx->n_active - ctx->new0) * width, &v);
        if (st == KVR_OK && ctx->q)
            st = copy_to_host(dev, &on_host.q, asked, &q);
        if (st == KVR_OK && ctx->all_keys)
            st = copy_to_host(dev, &on_host.all_keys, (size_t)(ctx->n_active - ctx->key0) * width,
                              &all);
        if (st == KVR_OK && ctx->all_values)
            st = copy_to_host(dev, &on_host.all_values, (size_t)ctx->n_active * width, &all_v);
    }
    if (st == KVR_OK)
        st = u->part->thin(u->opts, &on_host, kvr_dev_host(dev), state, keep);
    kvr_buf_free(&k);
    kvr_buf_free(&v);
    kvr_buf_free(&q);
    kvr_buf_free(&all);
    kvr_buf_free(&all_v);
    return st;
}

/* Doubles the capacity of the arrays of *s if they are full. If an allocation fails, all arrays
 * remain valid, and some may be larger than before. */
static bool grow(struct kvr_summaries *s, int head_dim)
{
    const int64_t capacity = s->capacity ? 2 * s->capacity : 256;
    const size_t n = (size_t)capacity, wide = n * (size_t)head_dim;
    void *p;

    if (s->n < s->capacity)
        return true;
    if ((p = realloc(s->token, n * sizeof *s->token)) != NULL)
        s->token = p;
    if (p && (p = realloc(s->head, n * sizeof *s->head)) != NULL)
        s->head = p;
    if (p && (p = realloc(s->weight, n * sizeof *s->weight)) != NULL)
        s->weight = p;
    if (p && (p = realloc(s->k, wide * sizeof *s->k)) != NULL)
        s->k = p;
    if (p && (p = realloc(s->v, wide * sizeof *s->v)) != NULL)
        s->v = p;
    s->capacity = p ? capacity : s->capacity;
    return p != NULL;
}

enum kvr_status kvr_summaries_add(struct kvr_summaries *s, int head, int64_t token, int64_t weight,
                                  int head_dim, const float *k, const float *v)
{
    const size_t bytes = (size_t)head_dim * sizeof *k;

    if (!grow(s, head_dim))
        return kvr_fail(KVR_ENOMEM, "retention: out of memory while allocating %lld summary tokens",
                        (long long)s->n);
    s->token[s->n] = (int32_t)token;
    s->head[s->n] = head;
    s->weight[s->n] = (int32_t)weight;
    if (k && v) {
        memcpy(s->k + s->n * head_dim, k, bytes);
        memcpy(s->v + s->n * head_dim, v, bytes);
    }
    s->n++;
    return KVR_OK;
}

void kvr_summaries_free(struct kvr_summaries *s)
{
    free(s->token);
    free(s->head);
    free(s->weight);
    free(s->k);
    free(s->v);
    *s = (struct kvr_summaries){ 0 };
}
