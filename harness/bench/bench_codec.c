/* bench_codec.c - see bench_codec.h. */
#include "harness/bench/bench_codec.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/core/isa.h"
#include "harness/core/rng.h"

const struct kvr_bench_line kvr_bench_lines[] = {
    { "RTN_INT4", "sym(bits=4)", KVR_K },
    { "RTN_INT2", "sym(bits=2)", KVR_K },
    { "KIVI_INT4.k", "asym(bits=4)", KVR_K },
    { "KIVI_INT4.v", "asym(bits=4,axis=token)", KVR_V },
    { "KIVI_INT2.k", "asym(bits=2)", KVR_K },
    { "KIVI_INT2.v", "asym(bits=2,axis=token)", KVR_V },
    { "QUAROT_KV_INT4", "hadamard | sym(bits=4)", KVR_K },
    { "QUAROT_KV_INT2", "hadamard | sym(bits=2)", KVR_K },
    { "PRQ_INT4", "sym(bits=4) + sym(bits=4)", KVR_K },
    { "PRQ_INT2", "sym(bits=2) + sym(bits=4)", KVR_K },
    { "QAQ_INT4.k", "outliers(sigma=6) | asym(bits=4)", KVR_K },
    { "QAQ_INT4.v", "outliers(sigma=6) | asym(bits=4,axis=token)", KVR_V },
    { "QAQ_INT2.k", "outliers(sigma=6) | asym(bits=2)", KVR_K },
    { "QAQ_INT2.v", "outliers(sigma=6) | asym(bits=2,axis=token)", KVR_V },
    { NULL, NULL, KVR_K },
};
enum {
    N_PIPELINES = sizeof kvr_bench_lines / sizeof *kvr_bench_lines - 1,
    MAX_ROUNDS = KVR_BENCH_MAX_ROUNDS,
    ROWS_EACH = KVR_BENCH_LINE_ROWS
};
_Static_assert(2 * ROWS_EACH * N_PIPELINES <= KVR_BENCH_CODEC_ROWS,
               "KVR_BENCH_CODEC_ROWS must allow three rows per pipeline and number of threads");

/* Buffers of the benchmark. */
struct kit {
    struct kvr_dev *dev;
    struct kvr_block_shape shape;
    size_t n; /* number of elements of the block */
    int rounds;
    struct kvr_buf x, work, out; /* float [n] */
    struct kvr_buf narrow;       /* kvr_bf16 [n], the values of `x`, which are exact in BF16 */
    struct kvr_buf copy_from, copy_to; /* float [n] */
};

static void kit_close(struct kit *k)
{
    kvr_buf_free(&k->x);
    kvr_buf_free(&k->narrow);
    kvr_buf_free(&k->work);
    kvr_buf_free(&k->out);
    kvr_buf_free(&k->copy_from);
    kvr_buf_free(&k->copy_to);
}

/* The values are normally distributed. One channel of each head is multiplied by 10, and a few
 * elements by 30. */
void kvr_bench_values(float *x, size_t n, int head_dim)
{
    kvr_normal(x, n, 0, KVR_RNG_SYNTHETIC, 0, 0, 0);
    for (size_t i = 0; i < n; i++) {
        if (i % (size_t)head_dim == 5)
            x[i] *= 10;
        if (i % 10007 == 0)
            x[i] *= 30;
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    }
}

static void fill(struct kit *k)
{
    kvr_bench_values(k->x.p, k->n, k->shape.head_dim);
    kvr_from_f32(k->narrow.p, KVR_BF16, k->x.p, k->n);
    memcpy(k->copy_from.p, k->x.p, k->n * sizeof(float));
    /* maps the buffer's pages before the timing */
    memcpy(k->copy_to.p, k->x.p, k->n * sizeof(float));
}

static enum kvr_status kit_open(struct kit *k)
{
    KVR_TRY(kvr_buf_alloc(&k->x, k->dev, KVR_MEM_IO, k->n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->narrow, k->dev, KVR_MEM_IO, k->n * sizeof(kvr_bf16)));
    KVR_TRY(kvr_buf_alloc(&k->work, k->dev, KVR_MEM_SCRATCH, k->n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->out, k->dev, KVR_MEM_SCRATCH, k->n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->copy_from, k->dev, KVR_MEM_IO, k->n * sizeof(float)));
    KVR_TRY(kvr_buf_alloc(&k->copy_to, k->dev, KVR_MEM_IO, k->n * sizeof(float)));
    fill(k);
    return KVR_OK;
}

/* Writes the quantization step of each channel of one token to step [channels]. If groups span
 * several tokens, `step` is written only at the first token of a group. */
static void steps_of(const struct kvr_coding_noise *s, size_t token, size_t channels, float *step)
{
    const size_t group = (size_t)s->group;

    switch (s->axis) {
    case KVR_AXIS_TOKENS:
        if (token % group == 0)
            kvr_to_f32(step, s->scale + token / group * channels, KVR_F16, channels);
        return;
    case KVR_AXIS_CHANNELS:
        for (size_t c = 0; c < channels; c++)
            step[c] = kvr_f16_to_f32(s->scale[(token * channels + c) / group]);
        return;
    case KVR_AXIS_TOKEN:
        break;
    }
    for (size_t c = 0; c < channels; c++)
        step[c] = kvr_f16_to_f32(s->scale[token]);
}

/* Compares every decoded element with the original element. The buffer `step` [channels] must be 0
 * at first; it receives the quantization steps of each token in turn. */
static enum kvr_status check_elements(const struct kit *k, const struct kvr_bench_line *line,
                                      const struct kvr_coding_noise *s, float *step)
{
    const size_t channels = (size_t)k->shape.n_heads * (size_t)k->shape.head_dim;
    const float *want = k->work.p, *got = k->out.p;
    int64_t held = 0;
    size_t e = 0;

    for (size_t token = 0; token < (size_t)k->shape.n_tok; token++) {
        if (s->kind == KVR_NOISE_UNIFORM)
            steps_of(s, token, channels, step);
        for (size_t c = 0; c < channels; c++, e++) {
            const bool exact = held < s->n_exact && (size_t)s->exact[held] == e;
            const float size = fabsf(want[e]), err = fabsf(got[e] - want[e]);
            /* The tolerance is half a quantization step plus four float roundings. Exact outliers
             * are in FP16, which has 11 significant bits. */
            const float tol = exact ? size * 0x1p-11f : 0.5f * fabsf(step[c]) + size * 0x1p-21f;

            held += exact;
            if (!(err <= tol))
                return kvr_fail(KVR_ETOLERANCE,
                                "bench: %s: token %zu, channel %zu: %g decodes to %g, an error of "
                                "%g; at most %g is allowed",
                                line->name, token, c, (double)want[e], (double)got[e], (double)err,
                                (double)tol);
        }
    }
    return KVR_OK;
}

/* Checks the decoded block against the original. The tolerances are quantization steps, so the
 * comparison is in the space of the codec's transform: the original is transformed, and the inverse
 * transform of the decoded values is omitted. */
static enum kvr_status check(struct kit *k, const struct kvr_bench_line *line,
                             const struct kvr_packed *p)
{
    const size_t channels = (size_t)k->shape.n_heads * (size_t)k->shape.head_dim;
    struct kvr_coding_noise s;
    float *step = calloc(channels, sizeof *step);
    enum kvr_status st;

    if (!step)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    kvr_codec_noise(p, &s);
    memcpy(k->work.p, k->x.p, k->n * sizeof(float));
    kvr_codec_transform(p->codec, k->dev, KVR_TO_SPACE, k->work.p, k->shape.n_tok, 0,
                        k->shape.n_heads, k->shape.head_dim);
    kvr_codec_decode_rotated(p, 0, k->shape.n_tok, 0, k->shape.n_heads, k->out.p);
    st = check_elements(k, line, &s, step);
    free(step);
    return st;
}

/* Returns the rate in GB/s, which is the block's size in BF16 divided by the time. */
static double speed(const struct kit *k, int64_t ns)
{
    return (double)(k->n * sizeof(kvr_bf16)) / (double)(ns > 0 ? ns : 1);
}

/* Returns the time in ns of a memcpy with the same traffic as encoding or decoding. The number
 * `moved` is that traffic: the bytes of the block's F32 or BF16 values plus the encoded bytes. A
 * memcpy reads and writes each byte, so it copies moved / 2 bytes. */
static double copy_ns(struct kit *k, size_t moved)
{
    enum { PARTS = 64 };
    const size_t bytes = moved / 2 < k->n * sizeof(float) ? moved / 2 : k->n * sizeof(float);
    const size_t part = bytes / PARTS + 1;
    const int64_t t0 = kvr_now_ns();

#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) {
        const size_t begin = part * (size_t)i;

        if (begin < bytes)
            memcpy((char *)k->copy_to.p + begin, (char *)k->copy_from.p + begin,
                   bytes - begin < part ? bytes - begin : part);
    }
    return (double)(kvr_now_ns() - t0);
}

/* Results of one kind of work (enum work), one per round: rates in GB/s, and ratios of the memcpy's
 * time to the work's time. */
struct turns {
    double speed[MAX_ROUNDS], ratio[MAX_ROUNDS];
    double cold[KVR_BENCH_CACHE_ROUNDS], warm[KVR_BENCH_CACHE_ROUNDS];
};

/* Row name: "quantise.RTN_INT4.bf16.avx512.t2". */
static void write_row(struct kvr_bench_row *row, const char *what, const char *name,
                      const char *input, struct turns *t, int n, int n_caches)
{
    *row = (struct kvr_bench_row){ .device = "cpu", .unit = "GB/s", .reference = "memcpy" };
    snprintf(row->name, sizeof row->name, "%s.%s%s.%s.t%d", what, name, input,
             kvr_isa_name(kvr_isa()), omp_get_max_threads());
    kvr_bench_fill(row, t->speed, t->ratio, n);
    kvr_bench_fill_caches(row, t->cold, t->warm, n_caches);
}

static void note(struct turns *t, int i, const struct kit *k, double copy, int64_t ns)
{
    t->speed[i] = speed(k, ns);
    t->ratio[i] = copy / (double)(ns > 0 ? ns : 1);
}

/* Measures the time in ns to encode the block. The buffers for codes are allocated in each call, as
 * in a cache, and malloc may reuse mapped pages. The scratch buffer k->work is not allocated within
 * the measured time. */
static enum kvr_status quantise(struct kit *k, const struct kvr_codec *c, bool bf16,
                                struct kvr_packed *p, int64_t *ns)
{
    enum kvr_status st;
    int64_t t0;

    kvr_packed_free(p);
    t0 = kvr_now_ns();
    st = bf16 ? kvr_codec_encode_bf16(c, k->dev, k->narrow.p, &k->shape, k->work.p, p)
              : kvr_codec_encode(c, k->dev, k->x.p, &k->shape, k->work.p, p);
    *ns = kvr_now_ns() - t0;
    return st;
}

static int64_t decode(struct kit *k, const struct kvr_packed *p)
{
    const int64_t t0 = kvr_now_ns();

    kvr_codec_decode(p, 0, k->shape.n_tok, 0, k->shape.n_heads, k->out.p);
    return kvr_now_ns() - t0;
}

enum work { CODE_BF16, CODE_F32, DECODE }; /* kinds of work, in the order of their rows */

/* Evicts from the CPU caches all data that this kind of work reads or writes. */
static bool evict(const struct kit *k, enum work work, const struct kvr_packed *p)
{
    const struct kvr_buf *const read[] = { [CODE_BF16] = &k->narrow, [CODE_F32] = &k->x };
    const struct kvr_buf *const all[] = { work == DECODE ? &k->out : read[work], &k->work };
    bool done = true;

    for (int i = 0; i < (work == DECODE ? 1 : 2); i++)
        done = kvr_bench_evict(all[i]->p, all[i]->n_bytes) && done;
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        kvr_bench_evict(p->stage[i].codes.p, p->stage[i].codes.n_bytes);
        kvr_bench_evict(p->stage[i].meta.p, p->stage[i].meta.n_bytes);
    }
    return done;
}

/* Measures the rate of one kind of work with evicted CPU caches, and once more immediately
 * afterwards. */
static enum kvr_status time_caches(struct kit *k, const struct kvr_codec *c, enum work work, int i,
                                   struct turns *t, struct kvr_packed *p)
{
    const bool cold = evict(k, work, p);

    for (int warm = 0; warm < 2; warm++) {
        int64_t ns;

        if (work == DECODE)
            ns = decode(k, p);
        else
            KVR_TRY(quantise(k, c, work == CODE_BF16, p, &ns));
        (warm ? t->warm : t->cold)[i] = warm || cold ? speed(k, ns) : NAN;
    }
    return KVR_OK;
}

/* Decodes the block again, and checks that the result equals that of the timed run. */
static enum kvr_status check_decoded(struct kit *k, const struct kvr_bench_line *line,
                                     const struct kvr_packed *p)
{
    const float *again = k->work.p, *timed = k->out.p;

    kvr_codec_decode(p, 0, k->shape.n_tok, 0, k->shape.n_heads, k->work.p);
    for (size_t e = 0; e < k->n; e++)
        if (memcmp(&again[e], &timed[e], sizeof *again) != 0)
            return kvr_fail(KVR_ETOLERANCE,
                            "bench: %s: element %zu decoded to %g in the timed run, but to %g when "
                            "the same codes were decoded again",
                            line->name, e, (double)timed[e], (double)again[e]);
    return KVR_OK;
}

/* Measures one round of each kind of work. In the last round, each result is checked before the
 * next work overwrites it. */
static enum kvr_status time_round(struct kit *k, const struct kvr_bench_line *line,
                                  const struct kvr_codec *c, size_t stored, int i, bool last,
                                  struct turns t[ROWS_EACH], struct kvr_packed *p)
{
    const size_t wide = k->n * sizeof(float) + stored, narrow = k->n * sizeof(kvr_bf16) + stored;
    const size_t token = (size_t)k->shape.n_heads * (size_t)k->shape.head_dim;

    kvr_bench_rotate_rows(k->x.p, k->n * sizeof(float), token * sizeof(float));
    kvr_bench_rotate_rows(k->narrow.p, k->n * sizeof(kvr_bf16), token * sizeof(kvr_bf16));
    for (int w = CODE_BF16; w <= DECODE; w++) {
        const double copy = copy_ns(k, w == CODE_BF16 ? narrow : wide);
        int64_t ns;

        if (w == DECODE)
            ns = decode(k, p);
        else
            KVR_TRY(quantise(k, c, w == CODE_BF16, p, &ns));
        note(&t[w], i, k, copy, ns);
        if (last)
            KVR_TRY(w == DECODE ? check_decoded(k, line, p) : check(k, line, p));
        if (i < kvr_bench_cache_rounds(k->rounds))
            KVR_TRY(time_caches(k, c, (enum work)w, i, &t[w], p));
    }
    return KVR_OK;
}

/* Returns whether the next round of the benchmark is the last: the ratios to the memcpy's time are
 * steady for all kinds of work, or the maximum number of rounds is reached. */
static bool is_last(const struct kit *k, const struct turns t[ROWS_EACH], int n)
{
    bool last = true;

    for (int w = 0; w < ROWS_EACH; w++)
        last = last && kvr_bench_last(t[w].ratio, n, k->rounds);
    return last;
}

static enum kvr_status time_pipeline(struct kit *k, const struct kvr_bench_line *line,
                                     const struct kvr_codec *c,
                                     struct kvr_bench_row rows[ROWS_EACH])
{
    struct turns t[ROWS_EACH];
    struct kvr_packed p = { 0 };
    int64_t ns;
    enum kvr_status st = quantise(k, c, true, &p, &ns);

    if (st == KVR_OK)
        st = check(k, line, &p);
    if (st == KVR_OK)
        st = quantise(k, c, false, &p, &ns);
    if (st == KVR_OK)
        st = check(k, line, &p);
    const size_t stored = kvr_packed_bytes(&p);
    const int few = kvr_bench_cache_rounds(k->rounds);
    bool last = false;
    int n = 0;

    for (; !last && st == KVR_OK; n++) {
        last = is_last(k, t, n);
        st = time_round(k, line, c, stored, n, last, t, &p);
    }
    kvr_packed_free(&p);
    if (st != KVR_OK)
        return st;
    write_row(&rows[0], "quantise", line->name, ".bf16", &t[CODE_BF16], n, few);
    write_row(&rows[1], "quantise", line->name, "", &t[CODE_F32], n, few);
    write_row(&rows[2], "dequantise", line->name, "", &t[DECODE], n, few);
    return KVR_OK;
}

static enum kvr_status time_line(struct kit *k, const struct kvr_bench_line *line,
                                 struct kvr_bench_row rows[ROWS_EACH])
{
    struct kvr_codec *c = NULL;
    enum kvr_status st = kvr_codec_open(&c, line->text, line->side, false);

    if (st == KVR_OK)
        st = kvr_codec_check(c, k->shape.n_heads, k->shape.head_dim);
    if (st == KVR_OK)
        st = time_pipeline(k, line, c, rows);
    kvr_codec_close(&c);
    return st;
}

/* Measures every codec pipeline with OpenMP's current number of threads, and appends the rows. */
static enum kvr_status time_all(struct kit *k, struct kvr_bench_row *rows, int *n_rows)
{
    for (int i = 0; i < N_PIPELINES; i++) {
        KVR_TRY(time_line(k, &kvr_bench_lines[i], rows + *n_rows));
        *n_rows += ROWS_EACH;
    }
    return KVR_OK;
}

static enum kvr_status kit_of(struct kit *k, struct kvr_dev *dev,
                              const struct kvr_block_shape *shape, int rounds)
{
    *k = (struct kit){ .dev = dev, .rounds = rounds };
    if (rounds < 3 || rounds > MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds, MAX_ROUNDS);
    k->shape = shape ? *shape : (struct kvr_block_shape){ 4680, 12, 128 };
    k->n = (size_t)k->shape.n_tok * (size_t)k->shape.n_heads * (size_t)k->shape.head_dim;
    return kit_open(k);
}

enum kvr_status kvr_bench_codec_line(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                     int rounds, const struct kvr_bench_line *line,
                                     struct kvr_bench_row rows[ROWS_EACH])
{
    struct kit k;
    enum kvr_status st = kit_of(&k, dev, shape, rounds);

    if (st == KVR_OK)
        st = time_line(&k, line, rows);
    kit_close(&k);
    return st;
}

enum kvr_status kvr_bench_codec(struct kvr_dev *dev, const struct kvr_block_shape *shape,
                                int rounds, struct kvr_bench_row *rows, int *n_rows)
{
    const int threads = omp_get_max_threads();
    struct kit k;
    enum kvr_status st;

    *n_rows = 0;
    st = kit_of(&k, dev, shape, rounds);
    if (st == KVR_OK && threads > 1) {
        omp_set_num_threads(1);
        st = time_all(&k, rows, n_rows);
        omp_set_num_threads(threads);
    }
    if (st == KVR_OK)
        st = time_all(&k, rows, n_rows);
    kit_close(&k);
    return st;
}
