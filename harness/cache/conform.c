/* conform.c - see conform.h. */
#include "harness/cache/conform.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cache/fingerprint.h"
#include "harness/cache/mirror.h"
#include "harness/core/rng.h"
#include "harness/device/names.h"

/* Shape of the trials: 8 chunks of 3 frames of 10 tokens, and a truncated ninth chunk. */
enum { S = 10, F = 3, H = 2, CHUNK = S * F, TOKENS = 8 * CHUNK + 13, N_CHUNKS = 9 };

/* A trial: one layer with its input and its output. */
struct trial {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer layer;
    struct kvr_layer_scratch scratch;
    size_t width;       /* H * D */
    float *k, *v;       /* [TOKENS,H,D] */
    float *out;         /* [2][TOKENS,H,D]: keys, then values */
    uint8_t *held;      /* [TOKENS] */
    struct kvr_buf put; /* device copy of a chunk's keys and values */
};

static enum kvr_status trial_open(struct trial *t, const struct kvr_conform *c, struct kvr_dev *dev,
                                  uint32_t seed)
{
    const struct kvr_layer_geometry geo = { .layer = 1,
                                            .n_layers = 4,
                                            .n_heads = H,
                                            .head_dim = c->head_dim,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };
    size_t n;

    *t = (struct trial){ .dev = dev, .width = (size_t)(H * c->head_dim) };
    n = TOKENS * t->width;
    t->k = malloc(n * sizeof *t->k);
    t->v = malloc(n * sizeof *t->v);
    t->out = malloc(2 * n * sizeof *t->out);
    t->held = malloc(TOKENS);
    if (!t->k || !t->v || !t->out || !t->held)
        return kvr_fail(KVR_ENOMEM, "out of memory while allocating %d tokens", TOKENS);
    kvr_normal(t->k, n, seed, KVR_RNG_SYNTHETIC, 1, 0, 0);
    kvr_normal(t->v, n, seed, KVR_RNG_SYNTHETIC, 2, 0, 0);
    KVR_TRY(kvr_scheme_open(&t->scheme, c->method, NULL, 0));
    if (kvr_scheme_is_study(t->scheme))
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: the checks cover only methods as their papers intend them (NAME), not "
                        "as the study implemented them (NAME@study)",
                        c->method);
    KVR_TRY(kvr_scheme_check(t->scheme, H, c->head_dim));
    return kvr_layer_open(&t->layer, dev, t->scheme, &geo, &t->scratch, false);
}

/* Closes the trial. Does not change the error message of an earlier failure. */
static void trial_close(struct trial *t)
{
    if (t->layer.dev)
        kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_buf_free(&t->put);
    kvr_scheme_close(&t->scheme);
    free(t->k);
    free(t->v);
    free(t->out);
    free(t->held);
    *t = (struct trial){ 0 };
}

static int64_t end_of(int chunk)
{
    const int64_t end = (int64_t)(chunk + 1) * CHUNK;

    return end < TOKENS ? end : TOKENS;
}

static enum kvr_status store_chunk(struct trial *t, int c)
{
    const int64_t begin = (int64_t)c * CHUNK, n = end_of(c) - begin;
    const size_t floats = (size_t)n * t->width;
    const float *k = t->k + (size_t)begin * t->width, *v = t->v + (size_t)begin * t->width;

    if (!kvr_dev_in_host(t->dev)) {
        KVR_TRY(kvr_buf_reserve(&t->put, t->dev, KVR_MEM_IO, 2 * CHUNK * t->width * sizeof *k));
        KVR_TRY(kvr_dev_put(t->dev, t->put.p, k, floats * sizeof *k));
        KVR_TRY(kvr_dev_put(t->dev, (float *)t->put.p + floats, v, floats * sizeof *v));
        k = t->put.p;
        v = k + floats;
    }
    KVR_TRY(kvr_layer_commit(&t->layer, k, v, begin, n));
    return kvr_dev_sync(t->dev);
}

static enum kvr_status store_all(struct trial *t)
{
    for (int c = 0; c < N_CHUNKS; c++)
        KVR_TRY(store_chunk(t, c));
    return KVR_OK;
}

/* Decodes all keys and values as attention reads them. Unless `hex` is NULL, also computes the
 * SHA-256 of the stored bytes. */
static enum kvr_status read_all(struct trial *t, char hex[KVR_SHA256_HEX])
{
    const bool in_host = kvr_dev_in_host(t->dev);
    struct kvr_layer host = { 0 };
    enum kvr_status st = in_host ? KVR_OK : kvr_layer_mirror(&t->layer, &host);
    const struct kvr_layer *l = in_host ? &t->layer : &host;

    if (st == KVR_OK)
        st = kvr_layer_read_joint(l, NULL);
    if (st == KVR_ENAN) /* no error here: callers check the decoded values for NaN */
        st = KVR_OK;
    if (st == KVR_OK)
        kvr_layer_dense(l, 0, TOKENS, t->out, t->out + TOKENS * t->width, t->held);
    kvr_layer_drop_joint(l);
    if (st == KVR_OK && hex)
        st = kvr_layer_fingerprint(l, hex);
    if (!in_host)
        kvr_layer_close(&host);
    return st;
}

/* Opens a trial, stores all chunks in its layer, and decodes them. The caller must close the trial
 * even after a failure. */
static enum kvr_status run_one(struct trial *t, const struct kvr_conform *c, struct kvr_dev *dev,
                               uint32_t seed, char hex[KVR_SHA256_HEX])
{
    KVR_TRY(trial_open(t, c, dev, seed));
    KVR_TRY(store_all(t));
    return read_all(t, hex);
}

static bool same_out(const struct trial *a, const struct trial *b)
{
    return memcmp(a->out, b->out, 2 * TOKENS * a->width * sizeof *a->out) == 0 &&
           memcmp(a->held, b->held, TOKENS) == 0;
}

/* Fails with the first difference between the decoded values of `got` and of `want`. */
static enum kvr_status differs(const struct trial *got, const struct trial *want, const char *what)
{
    const size_t n = TOKENS * got->width;

    for (size_t i = 0; i < 2 * n; i++)
        if (memcmp(&got->out[i], &want->out[i], sizeof *got->out) != 0)
            return kvr_fail(KVR_ETOLERANCE,
                            "%s: the %s of token %zu, channel %zu decodes to %g, expected %g", what,
                            i < n ? "key" : "value", i % n / got->width, i % got->width,
                            (double)got->out[i], (double)want->out[i]);
    return kvr_fail(KVR_ETOLERANCE, "%s: attention sees other tokens", what);
}

/* ---- error against the input ----------------------------------------------------------------- */

static enum kvr_status check_finite(const struct trial *t, const char *of)
{
    for (size_t i = 0; i < 2 * TOKENS * t->width; i++)
        if (!isfinite(t->out[i]))
            return kvr_fail(
                KVR_ETOLERANCE,
                "test input of %s: the %s of token %zu, channel %zu decodes to %g; decoded "
                "values must be finite",
                of, i < TOKENS * t->width ? "key" : "value", i / t->width % TOKENS, i % t->width,
                (double)t->out[i]);
    return KVR_OK;
}

/* Returns the squared error of the decoded keys (side 0) or values (side 1), relative to the sum of
 * squares of the input. Tokens that are dropped or merged with other tokens do not count. */
static double error_of(const struct trial *t, int side)
{
    const float *x = side ? t->v : t->k, *y = t->out + (side ? TOKENS * t->width : 0);
    const size_t d = t->width / H;
    double e2 = 0, all2 = 0;

    for (int i = 0; i < t->layer.n; i++) {
        const struct kvr_segment *s = &t->layer.seg[i];

        for (int64_t j = 0;
             j < s->n_tok && s->kind == KVR_SEG_CODED && !s->summary && s->weight <= 1; j++) {
            const size_t at = (size_t)kvr_segment_token(s, j) * t->width;

            for (size_t c = 0; c < t->width && at < TOKENS * t->width; c++)
                if (kvr_segment_has_head(s, (int)(c / d))) {
                    e2 += ((double)x[at + c] - (double)y[at + c]) *
                          ((double)x[at + c] - (double)y[at + c]);
                    all2 += (double)x[at + c] * (double)x[at + c];
                }
        }
    }
    return all2 > 0 ? e2 / all2 : 0;
}

/* Checks that the relative squared error is at most 1, the error of decoding zeros. If tokens are
 * swapped, the error is about 2. */
static enum kvr_status check_error(const struct trial *t, const char *of, double error[2])
{
    for (int side = 0; side < 2; side++) {
        error[side] = error_of(t, side);
        if (!(error[side] <= 1))
            return kvr_fail(KVR_ETOLERANCE,
                            "test input of %s: the decoded %s have a relative squared error of "
                            "%.3g; the limit is 1, the error of decoding to zeros",
                            of, side ? "values" : "keys", error[side]);
    }
    return KVR_OK;
}

static enum kvr_status check_held(const struct trial *t)
{
    int64_t n = 0;

    for (int64_t i = 0; i < TOKENS; i++)
        n += t->held[i];
    return n ? KVR_OK
             : kvr_fail(KVR_ETOLERANCE,
                        "after all chunks were stored, attention sees none of the %d tokens; it "
                        "must see at least one",
                        TOKENS);
}

static enum kvr_status round_trip(struct kvr_conform *c)
{
    struct trial t;
    double error[2] = { 0, 0 };
    enum kvr_status st = run_one(&t, c, c->dev, 5, NULL);

    if (st == KVR_OK)
        st = check_finite(&t, "normal random numbers");
    if (st == KVR_OK)
        st = check_held(&t);
    if (st == KVR_OK)
        st = check_error(&t, "normal random numbers", error);
    trial_close(&t);
    snprintf(c->finding, sizeof c->finding,
             "relative squared error of decoded keys %.3g, of decoded values %.3g; the limit is 1",
             error[0], error[1]);
    return st;
}

/* Checks that the method does not modify its input. */
static enum kvr_status input_stays(struct kvr_conform *c)
{
    struct trial t, u = { 0 };
    enum kvr_status st = trial_open(&u, c, c->dev, 5); /* generates the same input */

    if (st == KVR_OK)
        st = run_one(&t, c, c->dev, 5, NULL);
    else
        t = (struct trial){ 0 };
    for (size_t i = 0; st == KVR_OK && i < TOKENS * t.width; i++) {
        const bool key = memcmp(&t.k[i], &u.k[i], sizeof *t.k) != 0;

        if (key || memcmp(&t.v[i], &u.v[i], sizeof *t.v) != 0)
            st = kvr_fail(KVR_ETOLERANCE,
                          "the codec modified its input at token %zu, channel %zu: the %s was %g "
                          "and is now %g; input must stay unchanged",
                          i / t.width, i % t.width, key ? "key" : "value",
                          (double)(key ? u.k[i] : u.v[i]), (double)(key ? t.k[i] : t.v[i]));
    }
    trial_close(&t);
    trial_close(&u);
    return st;
}

/* Computes the hash of the stored bytes of input `seed` in a child process with one thread, so that
 * storing this input leaves no state in this process. */
static enum kvr_status in_a_fresh_process(struct kvr_conform *c, uint32_t seed,
                                          char hex[KVR_SHA256_HEX])
{
    struct {
        enum kvr_status st;
        char text[256]; /* the hash, or an error message */
    } reply = { KVR_EINTERNAL, "the check ended early" };
    int fd[2], status = 0, failure;
    ssize_t got;
    pid_t pid, ended;

    if (pipe(fd) != 0)
        return kvr_fail(KVR_EIO,
                        "cannot create a pipe to the child process that encodes a second input: %s",
                        strerror(errno));
    pid = fork();
    failure = errno;
    if (pid == 0) {
        struct trial t;

        omp_set_num_threads(1);
        reply.st = run_one(&t, c, c->dev, seed, hex);
        snprintf(reply.text, sizeof reply.text, "%s", reply.st == KVR_OK ? hex : kvr_error());
        _exit(write(fd[1], &reply, sizeof reply) == (ssize_t)sizeof reply ? 0 : 1);
    }
    close(fd[1]);
    do /* the reply is smaller than PIPE_BUF, so one call reads all of it */
        got = pid > 0 ? read(fd[0], &reply, sizeof reply) : -1;
    while (got < 0 && pid > 0 && errno == EINTR);
    close(fd[0]);
    if (pid < 0)
        return kvr_fail(KVR_EIO, "cannot start the child process that encodes a second input: %s",
                        strerror(failure));
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended != pid || status != 0 || got != (ssize_t)sizeof reply || reply.st != KVR_OK)
        return kvr_fail(reply.st == KVR_OK ? KVR_EINTERNAL : reply.st,
                        "the child process failed to encode a second input: %s", reply.text);
    memcpy(hex, reply.text, KVR_SHA256_HEX);
    return KVR_OK;
}

/* Checks that the stored bytes of an input do not depend on the input that was stored before. The
 * check fails for a codec that wrongly reuses data of its first input. */
static enum kvr_status other_input(struct kvr_conform *c)
{
    char alone[KVR_SHA256_HEX] = "", second[KVR_SHA256_HEX] = "";
    struct trial t = { 0 };
    double error[2];
    enum kvr_status st = in_a_fresh_process(c, 6, alone);

    if (st == KVR_OK)
        st = run_one(&t, c, c->dev, 5, NULL);
    trial_close(&t);
    if (st == KVR_OK)
        st = run_one(&t, c, c->dev, 6, second);
    if (st == KVR_OK)
        st = check_error(&t, "other normal random numbers", error);
    if (st == KVR_OK && strcmp(alone, second) != 0)
        st = kvr_fail(KVR_ETOLERANCE,
                      "the same input is stored as different bytes if another input was stored "
                      "before it: SHA-256 %.12s.. after the other input, %.12s.. without it",
                      second, alone);
    trial_close(&t);
    return st;
}

/* ---- bytes --------------------------------------------------------------------------------- */

static enum kvr_status check_bytes(const struct trial *t, int chunk)
{
    const size_t policy = t->layer.state[0].buf.n_bytes + t->layer.state[1].buf.n_bytes -
                          kvr_layer_held_tokens_bytes(&t->layer);
    const size_t nominal = kvr_layer_nominal(&t->layer);
    size_t codes;
    const size_t resident = kvr_layer_resident(&t->layer, &codes);
    struct kvr_mem_stats mem;

    kvr_mem_stats(t->dev, &mem);
    if (resident - policy != nominal)
        return kvr_fail(
            KVR_ETOLERANCE,
            "after chunk %d: the cache's buffers have %zu bytes, the codec declares %zu bytes; the "
            "numbers must be equal",
            chunk, resident - policy, nominal);
    if (resident != mem.live[KVR_MEM_KV] + mem.live[KVR_MEM_META])
        return kvr_fail(
            KVR_ETOLERANCE,
            "after chunk %d: the allocator counts %zu bytes for the cache, but the cache's buffers "
            "have %zu; the numbers must be equal",
            chunk, mem.live[KVR_MEM_KV] + mem.live[KVR_MEM_META], resident);
    return KVR_OK;
}

static enum kvr_status bytes(struct kvr_conform *c)
{
    struct kvr_mem_stats mem;
    struct trial t;
    size_t nominal = 0, bf16 = 1;
    enum kvr_status st = trial_open(&t, c, c->dev, 5);

    for (int i = 0; i < N_CHUNKS && st == KVR_OK; i++) {
        st = store_chunk(&t, i);
        if (st == KVR_OK)
            st = check_bytes(&t, i);
    }
    if (st == KVR_OK) {
        nominal = kvr_layer_nominal(&t.layer);
        bf16 = 2 * TOKENS * t.width * sizeof(kvr_bf16);
    }
    trial_close(&t);
    kvr_mem_stats(c->dev, &mem);
    if (st == KVR_OK && mem.live_total)
        st = kvr_fail(KVR_ETOLERANCE,
                      "%zu bytes are still allocated after the layer was closed (a leak)",
                      mem.live_total);
    snprintf(c->finding, sizeof c->finding, "%zu bytes, %.2fx smaller than BF16", nominal,
             nominal ? (double)bf16 / (double)nominal : INFINITY);
    return st;
}

/* ---- determinism ----------------------------------------------------------------------------- */

static enum kvr_status check_repeatable(struct kvr_conform *c)
{
    const int threads = omp_get_max_threads();
    char a[KVR_SHA256_HEX] = "", b[KVR_SHA256_HEX] = "";
    struct trial t = { 0 }, u = { 0 };
    enum kvr_status st;

    omp_set_num_threads(1);
    st = run_one(&t, c, c->dev, 5, a);
    omp_set_num_threads(3);
    if (st == KVR_OK)
        st = run_one(&u, c, c->dev, 5, b);
    omp_set_num_threads(threads);
    if (st == KVR_OK && strcmp(a, b) != 0)
        st = kvr_fail(KVR_ETOLERANCE,
                      "the stored bytes differ between one thread (SHA-256 %.12s..) and three "
                      "threads (%.12s..)",
                      a, b);
    if (st == KVR_OK && !same_out(&t, &u))
        st = differs(&u, &t, "decoding with three threads gives other values than with one");
    /* A chunk that is stored again must replace its earlier version. */
    if (st == KVR_OK)
        st = store_chunk(&u, N_CHUNKS - 1);
    if (st == KVR_OK)
        st = read_all(&u, NULL);
    if (st == KVR_OK && !same_out(&t, &u))
        st = differs(&u, &t, "a chunk that is stored a second time decodes differently");
    trial_close(&t);
    trial_close(&u);
    return st;
}

static enum kvr_status parts(struct kvr_conform *c)
{
    static const int64_t ranges[][2] = { { 0, 1 },   { 29, 31 },          { 7, 64 },
                                         { 95, 96 }, { 100, TOKENS - 1 }, { TOKENS - 1, TOKENS } };
    struct trial t;
    enum kvr_status st = run_one(&t, c, c->dev, 5, NULL);
    float *part = malloc(2 * TOKENS * (size_t)(H * c->head_dim) * sizeof *part);

    if (st == KVR_OK && !part)
        st = kvr_fail(KVR_ENOMEM, "out of memory while allocating %d tokens", TOKENS);
    for (size_t i = 0; st == KVR_OK && i < sizeof ranges / sizeof *ranges; i++) {
        const size_t begin = (size_t)ranges[i][0] * t.width,
                     n = (size_t)(ranges[i][1] - ranges[i][0]) * t.width;

        kvr_layer_dense(&t.layer, ranges[i][0], ranges[i][1], part, part + n, NULL);
        if (memcmp(part, t.out + begin, n * sizeof *part) != 0 ||
            memcmp(part + n, t.out + TOKENS * t.width + begin, n * sizeof *part) != 0)
            st = kvr_fail(
                KVR_ETOLERANCE,
                "decoding only tokens %lld to %lld gives other values than decoding all tokens",
                (long long)ranges[i][0], (long long)ranges[i][1] - 1);
    }
    free(part);
    trial_close(&t);
    return st;
}

/* ---- adversarial inputs
 * ----------------------------------------------------------------------- */

static const struct fill {
    const char *name;
    float constant; /* value of all elements, or NaN for random values */
    float outlier,
        size; /* random values are multiplied by `size`, every 16th channel also by `outlier` */
} fills[] = {
    { "zeros", 0, 1, 1 },
    { "the constant 1.7", 1.7f, 1, 1 },
    { "normal random numbers, every 16th channel times 1000", NAN, 1000, 1 },
    { "normal random numbers times 1e-30", NAN, 1, 1e-30f },
    { "normal random numbers times 1e4", NAN, 1, 1e4f },
};

static void fill(struct trial *t, const struct fill *f)
{
    for (size_t i = 0; i < TOKENS * t->width; i++) {
        const float by = f->size * (i % 16 == 5 ? f->outlier : 1);

        t->k[i] = f->constant == f->constant ? f->constant : by * t->k[i];
        t->v[i] = f->constant == f->constant ? f->constant : by * t->v[i];
    }
}

static enum kvr_status check_fill(struct kvr_conform *c, const struct fill *f)
{
    struct trial t;
    enum kvr_status st = trial_open(&t, c, c->dev, 5);

    if (st == KVR_OK) {
        fill(&t, f);
        st = store_all(&t);
    }
    if (st == KVR_OK)
        st = read_all(&t, NULL);
    if (st == KVR_OK)
        st = check_finite(&t, f->name);
    for (size_t i = 0; st == KVR_OK && f->constant == 0 && i < 2 * TOKENS * t.width; i++)
        if (!(fabsf(t.out[i]) <= 1e-3f))
            st = kvr_fail(KVR_ETOLERANCE,
                          "an input of zeros decodes to %g; the magnitude must be at most 1e-3",
                          (double)t.out[i]);
    trial_close(&t);
    return st;
}

/* Checks that a NaN or an infinity in the input does not decode to a finite number, which would
 * hide it. The NaN or infinity is in the newest chunk, where few methods drop tokens. */
static enum kvr_status check_non_finite(struct kvr_conform *c, float with)
{
    const size_t token = TOKENS - 3;
    struct trial t;
    enum kvr_status st = trial_open(&t, c, c->dev, 5);

    if (st == KVR_OK) {
        t.k[token * t.width + 1] = t.v[token * t.width + 1] = with;
        st = store_all(&t);
    }
    if (st == KVR_OK)
        st = read_all(&t, NULL);
    for (int side = 0; st == KVR_OK && side < 2 && t.held[token]; side++) {
        const float x = t.out[((size_t)side * TOKENS + token) * t.width + 1];

        if (isfinite(x))
            st = kvr_fail(KVR_ETOLERANCE,
                          "an input of %g in the %s decodes to the finite %g (token %zu, channel "
                          "1); the input must decode to "
                          "NaN or infinity",
                          (double)with, side ? "values" : "keys", (double)x, token);
    }
    trial_close(&t);
    return st;
}

static enum kvr_status check_hostile_values(struct kvr_conform *c)
{
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        KVR_TRY(check_fill(c, &fills[i]));
    KVR_TRY(check_non_finite(c, NAN));
    return check_non_finite(c, INFINITY);
}

/* ---- out of memory
 * ---------------------------------------------------------------------------- */

enum { MAX_FAILURES = 400, BEFORE = 3 };

/* Stores a chunk while the n-th memory allocation fails. *done becomes true if storing the chunk
 * needs fewer than n allocations. */
static enum kvr_status fail_at(struct kvr_conform *c, uint64_t n, const struct trial *want,
                               bool *done)
{
    struct kvr_mem_stats mem;
    struct trial t;
    enum kvr_status st = trial_open(&t, c, c->dev, 5), failed = KVR_OK;

    for (int i = 0; i < BEFORE && st == KVR_OK; i++)
        st = store_chunk(&t, i);
    if (st == KVR_OK) {
        kvr_mem_fail_after(c->dev, n);
        failed = store_chunk(&t, BEFORE);
        kvr_mem_fail_after(c->dev, 0);
        *done = failed == KVR_OK;
    }
    if (st == KVR_OK && failed != KVR_OK && failed != KVR_ENOMEM)
        st = kvr_fail_prefix(KVR_ETOLERANCE,
                             "the check made memory allocation %d fail, but the method reported %s "
                             "instead of ENOMEM",
                             (int)n, kvr_status_name(failed));
    if (st == KVR_OK && failed != KVR_OK)
        st = store_chunk(&t, BEFORE);
    if (st == KVR_OK)
        st = read_all(&t, NULL);
    if (st == KVR_OK && !same_out(&t, want))
        st = kvr_fail_prefix(
            differs(&t, want, "the chunk decodes differently when it is stored again"),
            "after memory allocation %d failed", (int)n);
    trial_close(&t);
    kvr_mem_stats(c->dev, &mem);
    if (st == KVR_OK && mem.live_total)
        st = kvr_fail(KVR_ETOLERANCE,
                      "after memory allocation %d failed, %zu bytes stay allocated (a leak)",
                      (int)n, mem.live_total);
    return st;
}

static enum kvr_status no_memory(struct kvr_conform *c)
{
    struct trial want;
    bool done = false;
    uint64_t n = 1;
    enum kvr_status st = trial_open(&want, c, c->dev, 5);

    for (int i = 0; i <= BEFORE && st == KVR_OK; i++)
        st = store_chunk(&want, i);
    if (st == KVR_OK)
        st = read_all(&want, NULL);
    if (st == KVR_OK) {
        /* fail_at() reports all memory that is still allocated as a leak, and needs only the
         * decoded values of `want`. Therefore the layer is freed here. */
        kvr_layer_close(&want.layer);
        kvr_layer_scratch_free(&want.scratch);
        want.layer.dev = NULL;
    }
    for (; n <= MAX_FAILURES && !done && st == KVR_OK; n++)
        st = fail_at(c, n, &want, &done);
    trial_close(&want);
    snprintf(c->finding, sizeof c->finding, "%d allocations per chunk, each made to fail once",
             (int)n - 2);
    return st;
}

/* ---- options ---------------------------------------------------------------------------------- */

struct ends {
    const char *method;
    int n;
    enum kvr_status st;
};

/* Checks that the method refuses the value of an option if it is out of bounds (`outside`). A value
 * within bounds may conflict with other options. kvr_scheme_open() or kvr_scheme_check() must then
 * return an error instead of crashing. */
static void try_value(struct ends *e, const char *prefix, const struct kvr_opt *o,
                      const char *value, bool outside)
{
    char name[128];
    const struct kvr_setting set = { name, value };
    struct kvr_scheme *p = NULL;

    snprintf(name, sizeof name, "%s%s", prefix, o->name);
    e->n++;
    if (kvr_scheme_open(&p, e->method, &set, 1) != KVR_OK)
        return;
    if (outside)
        e->st = kvr_fail(KVR_ETOLERANCE,
                         "option %s accepts %s, which is outside the declared range %g..%g", name,
                         value, o->min, o->max);
    else
        kvr_scheme_check(p, H, 64);
    kvr_scheme_close(&p);
}

static void try_number(struct ends *e, const char *prefix, const struct kvr_opt *o, double x,
                       bool outside)
{
    char text[64];

    snprintf(text, sizeof text, o->type == KVR_OPT_T_INT ? "%.0f" : "%.17g", x);
    try_value(e, prefix, o, text, outside);
}

static void try_option(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    struct ends *e = ctx;

    if (e->st != KVR_OK)
        return;
    if (!o->help || !*o->help) {
        e->st = kvr_fail(KVR_ETOLERANCE, "option %s%s has no help text", prefix, o->name);
        return;
    }
    if (o->type == KVR_OPT_T_INT || o->type == KVR_OPT_T_FLOAT) {
        if (!(o->min <= o->def && o->def <= o->max)) {
            e->st = kvr_fail(KVR_ETOLERANCE,
                             "option %s%s: the default %g is outside the declared range %g..%g",
                             prefix, o->name, o->def, o->min, o->max);
            return;
        }
        try_number(e, prefix, o, o->min, false);
        try_number(e, prefix, o, o->max, false);
        if (o->min - 1 < o->min) /* false if min is so large that min - 1 rounds to min */
            try_number(e, prefix, o, o->min - 1, true);
        if (o->max + 1 > o->max)
            try_number(e, prefix, o, o->max + 1, true);
    }
    for (int i = 0; o->type == KVR_OPT_T_ENUM && o->names[i]; i++)
        try_value(e, prefix, o, o->names[i], false);
    try_value(e, prefix, o, value, false);
}

static enum kvr_status options(struct kvr_conform *c)
{
    struct ends e = { .method = c->method, .st = KVR_OK };
    struct kvr_scheme *p;

    KVR_TRY(kvr_scheme_open(&p, c->method, NULL, 0));
    kvr_scheme_visit_options(p, try_option, &e);
    kvr_scheme_close(&p);
    snprintf(c->finding, sizeof c->finding, "%d option values tried", e.n);
    return e.st;
}

/* ---- another device --------------------------------------------------------------------------- */

static enum kvr_status other_device(struct kvr_conform *c)
{
    char a[KVR_SHA256_HEX] = "", b[KVR_SHA256_HEX] = "";
    struct trial t = { 0 }, u = { 0 };
    enum kvr_status st;

    if (!c->other)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "this build has no second device (CUDA or emulated) to compare with");
    st = run_one(&t, c, c->dev, 5, a);
    if (st == KVR_OK)
        st = run_one(&u, c, c->other, 5, b);
    if (st == KVR_OK && strcmp(a, b) != 0)
        st = kvr_fail(KVR_ETOLERANCE,
                      "the stored bytes on device %s (SHA-256 %.12s..) differ from those on device "
                      "%s (%.12s..)",
                      kvr_dev_name(c->other), b, kvr_dev_name(c->dev), a);
    if (st == KVR_OK && !same_out(&t, &u))
        st = kvr_fail_prefix(differs(&u, &t, "the decoded values differ from the CPU's"),
                             "device %s", kvr_dev_name(c->other));
    trial_close(&t);
    trial_close(&u);
    return st;
}

const struct kvr_conform_check kvr_conform_checks[] = {
    { "options",
      "options: values outside of the declared range are refused; values within it are accepted, "
      "or refused with a reason",
      options },
    { "round trip",
      "round trip: decoded values are finite and not permuted; their relative squared error is at "
      "most 1",
      round_trip },
    { "bytes", "allocated bytes equal the bytes that the codec declares, and none leak", bytes },
    { "again", "equal input gives equal stored bytes, for any number of threads",
      check_repeatable },
    { "input", "the input is not modified", input_stays },
    { "other input", "an earlier input does not affect a later one", other_input },
    { "parts", "decoding some tokens gives the same values as decoding all", parts },
    { "hostile", "zeros, constants, outliers, tiny and large numbers are accepted; NaN stays NaN",
      check_hostile_values },
    { "no memory", "a failed memory allocation is reported, leaks nothing and can be retried",
      no_memory },
    { "device", "another device gives the same stored bytes and decoded values", other_device },
    { NULL, NULL, NULL },
};

enum kvr_status kvr_conform_shape(struct kvr_conform *c)
{
    static const int widths[] = { 64, 128, 256, 32, 16 };
    struct kvr_scheme *p;
    enum kvr_status st;

    KVR_TRY(kvr_scheme_open(&p, c->method, NULL, 0));
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        c->head_dim = widths[i];
        st = kvr_scheme_check(p, H, c->head_dim);
        if (st == KVR_OK)
            break;
    }
    kvr_scheme_close(&p);
    return st;
}
