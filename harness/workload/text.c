/* text.c - evaluates a method on a text with a language model: commits the teacher's keys and
 * values of all tokens before a chunk, computes the chunk's logits, and scores the logits. */
#include "harness/workload/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/engine/lm.h"
#include "harness/workload/text_score.h"

struct walk {
    struct kvr_dev *dev;
    const struct kvr_text_request *req;
    const struct kvr_model_config *c;
    struct kvr_lm *lm;
    struct kvr_cache *cache;
    struct kvr_text_result *out;
    struct kvr_buf buf;          /* memory of the four arrays below */
    float *k, *v;                /* [C,n_kv_heads,D]: teacher's K and V of one chunk and layer */
    float *hidden;               /* [C,d]: hidden states of a chunk */
    float *past;                 /* [L,C,H]: attention mass on past tokens */
    int n, width;                /* number of tokens of the text; of values in a token's keys */
    int held;                    /* number of committed tokens */
    int n_chunks, done;          /* number of chunks to score; of chunks scored so far */
    int64_t t0_ns, unclocked_ns; /* t0_ns: start; unclocked_ns: time of scoring, not reported */
    kvr_progress_fn *progress;
    void *progress_ctx;
};

bool kvr_text_is_scored(int64_t n, int64_t from, int chunk)
{
    return from + chunk <= n && from + 1 < n;
}

int kvr_text_bins(const struct kvr_text_request *req, int n, int prefix[KVR_TEXT_MAX_BINS])
{
    int bins = 0;

    for (int64_t p = req->first; bins < KVR_TEXT_MAX_BINS && kvr_text_is_scored(n, p, req->chunk);
         p *= 2) {
        if (prefix)
            prefix[bins] = (int)p;
        bins++;
    }
    return bins;
}

/* A bin is a range of prefix lengths. Returns the end of the bin that begins at `prefix`: the first
 * tokens of its chunks are in [prefix, end). */
static int end_of(const struct kvr_text_request *req, int prefix)
{
    return req->scored < prefix ? prefix + req->scored : 2 * prefix;
}

static int count_chunks(const struct walk *w)
{
    int prefix[KVR_TEXT_MAX_BINS], n = 0;
    const int bins = kvr_text_bins(w->req, w->n, prefix);

    for (int b = 0; b < bins; b++)
        for (int s = prefix[b];
             s < end_of(w->req, prefix[b]) && kvr_text_is_scored(w->n, s, w->req->chunk);
             s += w->req->chunk)
            n++;
    return n;
}

/* --- the cache -------------------------------------------------------------------------- */

/* Stores the teacher's keys and values of tokens [from, from + n) in all layers. */
static enum kvr_status commit(struct walk *w, int from, int n)
{
    const struct kvr_pass pass = {
        .chunk = from / w->req->chunk, .frame0 = from, .n_frames = n, .index = 0, .clean = true
    };
    const size_t elems = (size_t)n * (size_t)w->width;

    KVR_TRY(kvr_cache_begin_pass(w->cache, &pass));
    for (int l = 0; l < w->c->n_layers; l++) {
        const size_t at = ((size_t)l * (size_t)w->n + (size_t)from) * (size_t)w->width;

        kvr_to_f32(w->k, w->req->teacher->k + at, KVR_BF16, elems);
        kvr_to_f32(w->v, w->req->teacher->v + at, KVR_BF16, elems);
        KVR_TRY(kvr_cache_append(w->cache, l, w->k, w->v));
        KVR_TRY(kvr_cache_commit(w->cache, l));
    }
    return kvr_cache_end_pass(w->cache);
}

/* Commits tokens up to `end`, in whole chunks. If `end` is inside a chunk, the tokens before it are
 * committed as a shorter chunk, and the next call commits that chunk again. */
static enum kvr_status commit_to(struct walk *w, int end)
{
    const int chunk = w->req->chunk;

    while (w->held < end) {
        const int from = w->held / chunk * chunk, to = from + chunk < end ? from + chunk : end;

        KVR_TRY(commit(w, from, to - from));
        w->held = to;
    }
    return KVR_OK;
}

/* --- one chunk -------------------------------------------------------------------------- */

static enum kvr_status record(struct walk *w, int chunk)
{
    struct kvr_pass_record *p = &w->out->cost.pass[w->out->cost.n_passes++];
    struct kvr_mem_stats mem;

    kvr_mem_stats(w->dev, &mem);
    p->chunk = chunk;
    p->t_ns = kvr_now_ns() - w->t0_ns - w->unclocked_ns;
    p->live_total = mem.live_total;
    memcpy(p->live, mem.live, sizeof p->live);
    kvr_cache_bytes(w->cache, &p->bytes);
    return KVR_OK;
}

/* Computes the mean attention mass on past tokens over n queries, all heads and all layers. */
static double mean_mass(const struct walk *w, int n)
{
    const size_t heads = (size_t)w->c->n_heads, chunk = (size_t)w->req->chunk;
    double sum = 0;

    for (size_t l = 0; l < (size_t)w->c->n_layers; l++)
        for (size_t i = 0; i < (size_t)n * heads; i++)
            sum += (double)w->past[l * chunk * heads + i];
    return sum / ((double)n * (double)heads * w->c->n_layers);
}

static enum kvr_status score(struct walk *w, int from, struct kvr_text_bin *bin)
{
    /* The text's last token has no next token, so its logits are not scored. */
    const int n = from + w->req->chunk < w->n ? w->req->chunk : w->n - 1 - from;
    struct kvr_score_sums sums = { 0 };

    KVR_TRY(kvr_score_rows(w->lm, w->c->vocabulary_size, w->c->dim, n, w->hidden,
                           w->req->teacher->hidden + (size_t)from * (size_t)w->c->dim,
                           w->req->tokens->id + from + 1, &sums));
    bin->tokens += sums.tokens;
    bin->nll += sums.nll;
    bin->kl += sums.kl;
    bin->top1 += sums.top1;
    bin->mass += mean_mass(w, n) * n;
    return KVR_OK;
}

static enum kvr_status read_chunk(struct walk *w, int from, struct kvr_text_bin *bin)
{
    const struct kvr_pass pass = { .chunk = from / w->req->chunk,
                                   .frame0 = from,
                                   .n_frames = w->req->chunk,
                                   .index = 0,
                                   .clean = false };
    int64_t begin;
    enum kvr_status st;

    KVR_TRY(commit_to(w, from));
    KVR_TRY(kvr_cache_begin_pass(w->cache, &pass));
    KVR_TRY(kvr_lm_forward(w->lm, w->cache, w->req->tokens->id + from, &pass, w->hidden));
    KVR_TRY(kvr_cache_end_pass(w->cache));
    begin = kvr_now_ns();
    KVR_TRY(record(w, pass.chunk));
    st = score(w, from, bin);
    w->done++;
    if (st == KVR_OK && w->progress && w->progress(w->progress_ctx, w->done, w->n_chunks))
        st = kvr_fail(KVR_EINTERRUPTED, "text: stopped by the user after chunk %d of %d", w->done,
                      w->n_chunks);
    w->unclocked_ns += kvr_now_ns() - begin;
    return st;
}

/* --- all chunks ------------------------------------------------------------------------- */

static void means(struct kvr_text_bin *b)
{
    b->nll /= (double)b->tokens;
    b->kl /= (double)b->tokens;
    b->top1 /= (double)b->tokens;
    b->mass /= (double)b->tokens;
}

static void finish_bins(struct kvr_text_result *out)
{
    for (int i = 0; i < out->n_bins; i++) {
        struct kvr_text_bin *b = &out->bin[i];

        out->all.tokens += b->tokens;
        out->all.nll += b->nll;
        out->all.kl += b->kl;
        out->all.top1 += b->top1;
        out->all.mass += b->mass;
        means(b);
    }
    means(&out->all);
}

static enum kvr_status read_all(struct walk *w)
{
    int prefix[KVR_TEXT_MAX_BINS];
    struct kvr_lm_times lm;

    w->out->n_bins = kvr_text_bins(w->req, w->n, prefix);
    w->t0_ns = kvr_now_ns();
    for (int b = 0; b < w->out->n_bins; b++) {
        struct kvr_text_bin *bin = &w->out->bin[b];

        bin->prefix = prefix[b];
        for (int s = prefix[b];
             s < end_of(w->req, prefix[b]) && kvr_text_is_scored(w->n, s, w->req->chunk);
             s += w->req->chunk)
            KVR_TRY(read_chunk(w, s, bin));
    }
    finish_bins(w->out);
    w->out->cost.wall_ns = kvr_now_ns() - w->t0_ns - w->unclocked_ns;
    kvr_cache_bytes(w->cache, &w->out->cost.bytes);
    kvr_mem_stats(w->dev, &w->out->cost.mem);
    KVR_TRY(kvr_lm_times(w->lm, &lm));
    w->out->cost.dit = (struct kvr_dit_times){ .linear_ns = lm.linear_ns, .other_ns = lm.other_ns };
    return kvr_cache_times(w->cache, &w->out->cost.cache);
}

static enum kvr_status check(const struct walk *w, const struct kvr_scheme *scheme)
{
    const struct kvr_text_request *r = w->req;

    if (scheme->opts.commit == KVR_COMMIT_LAST_STEP)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: commit=last_step needs a video model, since a text has no denoising steps",
            scheme->name);
    if (r->chunk < 1 || r->first < 1 || r->scored < 1)
        return kvr_fail(KVR_EINVAL,
                        "text: a chunk has %d tokens, the shortest prefix has %d tokens, and %d "
                        "tokens are scored per prefix length; each number must be at least 1",
                        r->chunk, r->first, r->scored);
    if (w->n > w->c->context_length)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "text: the text has %d tokens, at most %d (the model's context length) are supported",
            w->n, w->c->context_length);
    if (kvr_text_bins(r, w->n, NULL) == 0)
        return kvr_fail(KVR_EINVAL,
                        "text: the text has %d tokens, need at least %" PRId64
                        ": a prefix of %d plus a chunk of %d%s",
                        w->n, (int64_t)r->first + (r->chunk > 1 ? r->chunk : 2), r->first, r->chunk,
                        r->chunk > 1 ? "" : " plus the next token");
    return KVR_OK;
}

static enum kvr_status open_all(struct walk *w, const struct kvr_scheme *scheme)
{
    const struct kvr_text_request *r = w->req;
    struct kvr_cache_shape shape = kvr_lm_cache_shape(r->model, r->chunk);
    const size_t chunk = (size_t)r->chunk, kv = chunk * (size_t)w->width;
    const size_t hidden = chunk * (size_t)w->c->dim;
    const size_t past = (size_t)w->c->n_layers * chunk * (size_t)w->c->n_heads;

    shape.capacity_frames = w->n;
    shape.window_frames = r->window_tokens;
    shape.sink_frames = r->sink_tokens;
    shape.evict = r->evict;
    shape.exact = KVR_BF16;
    shape.attend = r->attend;
    w->n_chunks = count_chunks(w);
    w->out->cost.pass = calloc((size_t)w->n_chunks, sizeof *w->out->cost.pass);
    if (!w->out->cost.pass)
        return kvr_fail(KVR_ENOMEM, "text: out of memory while allocating %d chunks", w->n_chunks);
    KVR_TRY(kvr_buf_alloc(&w->buf, w->dev, KVR_MEM_ACT, (2 * kv + hidden + past) * sizeof *w->k));
    w->k = w->buf.p;
    w->v = w->k + kv;
    w->hidden = w->v + kv;
    w->past = w->hidden + hidden;
    KVR_TRY(kvr_lm_open(&w->lm, w->dev, r->model, r->chunk));
    KVR_TRY(kvr_cache_open(&w->cache, w->dev, scheme, &shape, r->path));
    return kvr_cache_collect_past_share(w->cache, w->past);
}

enum kvr_status kvr_text_run(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                             const struct kvr_text_request *req, kvr_progress_fn *progress,
                             void *progress_ctx, struct kvr_text_result *out)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);
    struct walk w = { .dev = dev,
                      .req = req,
                      .c = c,
                      .out = out,
                      .n = req->teacher->n,
                      .width = c->is_lm ? c->n_kv_heads * (c->dim / c->n_heads) : 0,
                      .progress = progress,
                      .progress_ctx = progress_ctx };
    struct kvr_mem_stats mem;
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    kvr_mem_reset_peak(dev);
    kvr_mem_stats(dev, &mem);
    out->cost.live_at_start = mem.live_total;
    out->cost.finite = true;
    st = check(&w, scheme);
    if (st == KVR_OK)
        st = open_all(&w, scheme);
    if (st == KVR_OK)
        st = read_all(&w);
    kvr_cache_close(&w.cache);
    kvr_lm_close(&w.lm);
    kvr_buf_free(&w.buf);
    kvr_mem_stats(dev, &mem);
    out->cost.live_at_end = mem.live_total;
    if (st != KVR_OK)
        kvr_text_result_free(out);
    return st;
}

void kvr_text_result_free(struct kvr_text_result *r)
{
    kvr_rollout_result_free(&r->cost);
    memset(r, 0, sizeof *r);
}

enum kvr_status kvr_text_nll(struct kvr_dev *dev, struct kvr_model *m, const int32_t *ids, int n,
                             double *nll, double *top1)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    const struct kvr_pass pass = {
        .chunk = 0, .frame0 = 0, .n_frames = n, .index = 0, .clean = true
    };
    struct kvr_cache_shape shape = kvr_lm_cache_shape(m, n);
    struct kvr_score_sums sums = { 0 };
    struct kvr_scheme *scheme = NULL;
    struct kvr_cache *cache = NULL;
    struct kvr_lm *lm = NULL;
    float *hidden;
    enum kvr_status st;

    if (n < 2)
        return kvr_fail(KVR_EINVAL,
                        "text: the text has %d tokens, a log-likelihood needs at least 2", n);
    shape.capacity_frames = n;
    shape.exact = KVR_F32;
    hidden = malloc((size_t)n * (size_t)c->dim * sizeof *hidden);
    st = hidden ? kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0)
                : kvr_fail(KVR_ENOMEM, "text: out of memory while allocating %d tokens", n);
    if (st == KVR_OK)
        st = kvr_lm_open(&lm, dev, m, n);
    if (st == KVR_OK)
        st = kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED);
    if (st == KVR_OK)
        st = kvr_cache_begin_pass(cache, &pass);
    if (st == KVR_OK)
        st = kvr_lm_forward(lm, cache, ids, &pass, hidden);
    if (st == KVR_OK)
        st = kvr_score_rows(lm, c->vocabulary_size, c->dim, n - 1, hidden, NULL, ids + 1, &sums);
    if (st == KVR_OK) {
        *nll = sums.nll / (double)sums.tokens;
        *top1 = sums.hits / (double)sums.tokens;
    }
    kvr_cache_close(&cache);
    kvr_lm_close(&lm);
    kvr_scheme_close(&scheme);
    free(hidden);
    return st;
}
