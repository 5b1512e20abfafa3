/* test_traffic.c - predicts the launches and bytes of every kernel in one forward pass. For small
 * models, the prediction must equal the emulated device's counts. For Wan's size, it must equal the
 * table in docs/cuda-internals.md. A kernel added to a transformer block makes the test fail until
 * prediction and table are updated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/cache/attend_cuda.h"
#include "harness/cache/attend_scratch_cuda.h"
#include "harness/cache/cache_sizes.h"
#include "harness/cache/attend_wgmma.h"
#include "harness/core/rng.h"
#include "harness/device/traffic.h"
#include "harness/engine/dit.h"
#include "harness/engine/linear_cuda.h"
#include "tests/suite.h"

/* Sizes of a model and of the cache: a forward pass in BF16 over `past` chunks. */
struct size {
    int dim, heads, ffn, freq, text_dim, text, channels, height, width, layers, past;
};

static char dir[] = "/tmp/kvreel-traffic-XXXXXX";

static void write_model(const struct size *s)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "%s/config.json", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(
        f,
        "{\"model_type\": \"t2v-causal\", \"weights\": {\"random\": {\"seed\": 1}}, \"dim\": %d, "
        "\"ffn_dim\": %d, \"freq_dim\": %d, \"text_dim\": %d, \"text_len\": %d, \"in_dim\": %d, "
        "\"out_dim\": %d, \"num_heads\": %d, \"num_layers\": %d, \"patch_size\": [1, 2, 2], "
        "\"eps\": 1e-06, \"qk_norm\": true, \"cross_attn_norm\": true, \"latent_height\": %d, "
        "\"latent_width\": %d, \"frames_per_chunk\": 3, \"prediction\": \"flow\", "
        "\"latent_space\": \"vae\", \"timestep_shift\": 5.0, \"denoising_steps\": [1000, 500], "
        "\"context_timestep\": 0, \"window_frames\": 0}\n",
        s->dim, s->ffn, s->freq, s->text_dim, s->text, s->channels, s->channels, s->heads,
        s->layers, s->height, s->width);
    ck_assert_int_eq(fclose(f), 0);
}

enum { MOST = 128 };

/* Counts the launches and bytes of a forward pass that stores nothing. It attends to `past` chunks
 * that the method has stored. groups: use a device of compute capability 9.0, which has the
 * warpgroup kernels, instead of 8.0. */
static int count_of(const struct size *s, bool groups, const char *method, enum kvr_path path,
                    struct kvr_traffic_line *lines)
{
    const struct kvr_model_use use = { .compute = KVR_BF16 };
    static float x[3 * 16 * 64 * 64], prompt[64 * 128];
    const float t[3] = { 500, 500, 500 };
    const size_t n = (size_t)(3 * s->channels * s->height * s->width);
    struct kvr_cache_shape shape = { .n_layers = s->layers,
                                     .n_heads = s->heads,
                                     .head_dim = s->dim / s->heads,
                                     .tokens_per_frame = s->height * s->width / 4,
                                     .frames_per_chunk = 3,
                                     .capacity_frames = 3 * (s->past + 1),
                                     .exact = KVR_BF16 };
    struct kvr_dev *dev;
    struct kvr_model *m;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dit *d;
    struct kvr_buf in = { 0 }, out = { 0 };
    int n_lines = 0;

    write_model(s);
    setenv("KVREEL_EMULATED_CAPABILITY", groups ? "9.0" : "8.0", 1);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    unsetenv("KVREEL_EMULATED_CAPABILITY");
    ck_assert_msg(kvr_model_open_as(&m, dev, dir, &use) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_scheme_open(&scheme, method, NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &shape, path), KVR_OK);
    ck_assert_msg(kvr_dit_open(&d, dev, m) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_buf_alloc(&in, dev, KVR_MEM_IO, n * sizeof(float)), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&out, dev, KVR_MEM_IO, n * sizeof(float)), KVR_OK);
    kvr_normal(x, n, 1, KVR_RNG_TEST, 1, 0, 0);
    ck_assert_int_eq(kvr_dev_put(dev, in.p, x, n * sizeof(float)), KVR_OK);
    ck_assert_int_eq(kvr_model_draw_prompt(m, "a red disc", prompt), KVR_OK);
    ck_assert_int_eq(kvr_dit_set_prompt(d, prompt), KVR_OK);
    for (int c = 0; c <= s->past; c++) {
        const struct kvr_pass pass = {
            .chunk = c, .frame0 = 3 * c, .n_frames = 3, .index = 0, .clean = c < s->past
        };

        kvr_stream_account(kvr_dev_stream(dev), c == s->past);
        ck_assert_int_eq(kvr_cache_begin_pass(cache, &pass), KVR_OK);
        ck_assert_msg(kvr_dit_forward(d, cache, in.p, t, &pass, out.p) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(kvr_cache_end_pass(cache), KVR_OK);
        ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    }
    n_lines = kvr_stream_traffic(kvr_dev_stream(dev), lines, MOST);
    kvr_buf_free(&in);
    kvr_buf_free(&out);
    kvr_dit_close(&d);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    kvr_model_close(&m);
    kvr_dev_close(&dev);
    return n_lines;
}

static int count(const struct size *s, bool groups, struct kvr_traffic_line *lines)
{
    return count_of(s, groups, "BF16", KVR_PATH_FUSED, lines);
}

/* ---- the prediction ---------------------------------------------------------------------- */

enum kind { ELEMENTS, PRODUCTS, ATTENTION, N_KINDS };
static const char *const kind_names[] = { "passes over activations", "linear layers", "attention" };

struct prediction {
    const char *what;
    enum kind kind;
    int64_t launches, read, written;
};

static int64_t padded(int64_t k)
{
    return kvr_linear_padded((int)k);
}

/* Adds `times` linear layers of m rows. Inputs and weights are BF16 with padded rows. Biases are
 * F32. Results have `size` bytes per value. */
static void layers(struct prediction *p, int64_t times, int64_t m, int64_t n, int64_t k, int size)
{
    p->launches += times;
    p->read += times * ((m + n) * padded(k) * 2 + n * 4);
    p->written += times * m * n * size;
}

/* Returns the number of query rows whose keys attention splits among several blocks (split-KV), and
 * sets *parts to the number of splits per row. The keys are those of the past chunks and the
 * current one, in tiles of `tile` keys. */
static int64_t rows_cut(const struct size *s, int64_t N, int tile, int *parts)
{
    const struct kvr_attend_shape shape = { N, s->heads, s->dim / s->heads };
    const int64_t row = (N + KVR_ATTEND_SPLIT_QUERIES - 1) / KVR_ATTEND_SPLIT_QUERIES;
    const struct kvr_attend_split split = kvr_attend_split_for(
        &shape, (s->past + 1) * ((N + tile - 1) / tile), kvr_attend_parts_floats(&shape));
    int64_t n = 0;

    for (int64_t i = split.n_whole; i < split.n_whole + split.n_cut; i++) {
        const int64_t left = N - i % row * KVR_ATTEND_SPLIT_QUERIES;

        n += left < KVR_ATTEND_SPLIT_QUERIES ? left : KVR_ATTEND_SPLIT_QUERIES;
    }
    *parts = split.parts;
    return n;
}

/* Adds the weights and biases that `times` linear layers of linear_wgmma read. */
static void fused(struct prediction *p, int64_t times, int64_t n, int64_t k)
{
    p->read += times * (n * padded(k) * 2 + n * 4);
}

/* The linear layers of all blocks in warpgroup kernels, with residual sums and GELU in their
 * epilogues. */
static struct prediction fused_layers(const struct size *s)
{
    const int64_t L = s->layers, F = 3, N = F * s->height * s->width / 4, d = s->dim, f = s->ffn;
    const int64_t C = 4 * s->channels, x = N * d * 2, hidden = N * padded(f) * 2;
    const int64_t vectors = F * d * 4;
    struct prediction p = { "linear_wgmma", PRODUCTS, 6 * L + 1, 0, 0 };

    fused(&p, 1, d, C);
    fused(&p, 6 * L, d, d);
    fused(&p, L, f, d);
    fused(&p, L, d, f);
    /* The patch embedding writes x. In each block, three sets of normalised rows are read: for Q, K
     * and V, for cross-attention's Q, and for the hidden layer of the FFN. */
    p.read += N * padded(C) * 2 + L * 3 * N * padded(d) * 2;
    p.written += x + L * (4 * x + hidden);
    p.written += L * 2 * N * ((d + 127) / 128) * 4; /* sums of squares of queries */
    /* In each block, three layers add their result to x, two of them through a gate. The last of
     * the three reads the hidden layer. */
    p.read += L * (2 * x + hidden + 3 * x + 2 * vectors);
    p.written += L * 3 * x;
    return p;
}

static int predict(const struct size *s, bool groups, struct prediction *out)
{
    const int64_t L = s->layers, F = 3, N = F * s->height * s->width / 4, d = s->dim, f = s->ffn;
    const int64_t C = 4 * s->channels, q = s->freq, x = N * d * 2, half = d / s->heads / 2;
    /* bytes of one row of partial sums in F32; a result row in BF16 has half as many */
    const int64_t a_row = d / s->heads * 4;
    /* attention runs in attend_list instead of attend_mma_rows */
    const bool list = groups && (2 * half == 64 || 2 * half == 128);
    int parts;
    const int64_t rows = rows_cut(s, N, list ? KVR_ATTEND_LIST_KEYS : 64, &parts),
                  cut = rows * a_row / 2, sums = rows * (a_row + 2 * 4);
    const int64_t keys = (s->past + 1) * N * d * 2 * 2, prompt = s->text * d * 2 * 2;
    /* three normalisations per block and one in the head */
    const int64_t norms = 3 * L + 1;
    /* tensors that rope_rows rotates: K, and without warpgroup kernels also Q */
    const int64_t turned = groups ? 1 : 2, blocks = (d + 127) / 128;
    /* bytes that attention reads to normalise and rotate queries itself */
    const int64_t norm = groups ? (N + d) * 4 : 0, angles = groups ? 2 * N * half * 8 : 0;
    const struct prediction none = { 0 };
    struct prediction products = { "linear_bf16", PRODUCTS, 0, 0, 0 };
    const struct prediction all[] = {
        /* BF16 inputs of the patch embedding and of three layers of the time embedding. */
        { "linear_round", ELEMENTS, 4, N * C * 4 + F * (q + 2 * d) * 4,
          N * padded(C) * 2 + F * (padded(q) + 2 * padded(d)) * 2 },
        { "silu", ELEMENTS, 2, 2 * F * d * 4, 2 * F * d * 4 },
        { "patches", ELEMENTS, 2, 2 * N * C * 4, 2 * N * C * 4 },
        { "modulation", ELEMENTS, L + 1, (L * (6 + F * 6) + 2 + F) * d * 4,
          (L * 6 + 2) * F * d * 4 },
        { "norm_rows", ELEMENTS, norms, norms * x + ((2 * L + 1) * F * 2 + L * 2) * d * 4,
          norms * N * padded(d) * 2 },
        /* Rotates queries in place, and keys into the cache. */
        { "rope_rows", ELEMENTS, L, L * (turned * (x + d * 4) + 2 * N * half * 8), L * turned * x },
        { "rms_rows", ELEMENTS, groups ? 0 : L, L * (x + d * 4), L * x },
        { "query_inverses", ELEMENTS, groups ? 2 * L : 0, 2 * L * N * blocks * 4, 2 * L * N * 4 },
        /* Self-attention, which may split the keys among blocks, and cross-attention. */
        { list ? "attend_list" : "attend_mma_rows", ATTENTION, 2 * L,
          L * (2 * x + keys + prompt + 2 * norm + angles), L * (2 * x - cut + parts * sums) },
        cut ? (struct prediction){ "attend_parts", ATTENTION, L, L * parts * sums, L * cut } : none,
        groups ? fused_layers(s) : none,
    };
    int n = 0;

    layers(&products, 1, F, d, q, 4);
    layers(&products, 1, F, d, d, 4);
    layers(&products, 1, F, 6 * d, d, 4);
    layers(&products, 1, N, C, d, 4);
    if (!groups) {
        layers(&products, 1, N, d, C, 2);
        layers(&products, 6 * L, N, d, d, 2);
        layers(&products, L, N, f, d, 2);
        products.written +=
            /* The layer also writes its padding columns, which stay zero after GELU. */
            L * N * (padded(f) - f) * 2;
        layers(&products, L, N, d, f, 2);
        /* three of these layers add their result to x, two of them through a gate */
        products.read += 3 * L * x + 2 * L * F * d * 4;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].launches)
            out[n++] = all[i];
    out[n++] = products;
    return n;
}

/* ---- lower bounds ------------------------------------------------------------------------ */

/* Minimum bytes of a forward pass. Activations of a block are BF16; every launch that needs them
 * reads and writes them once. The weights of linear layers, and keys and values, are read once. */
struct least {
    double activations, weights, keys;
};

/* Returns how many rows of d values the launches of a block read and write per token, with residual
 * sums and GELU fused into the linear layers. Rows of the hidden layer are not included. fused:
 * norms and rotation are fused into the linear layers, too. */
static int rows_moved(bool fused)
{
    const int products =
        /* rows read + rows written by QKV; self-attention's output layer; cross-attention's Q; its
         * output layer; the FFN */
        (1 + 3) + (1 + 1) + (1 + 1) + (1 + 1) + (1 + 1);
    const int residuals = 3, attention = 2 * (1 + 1); /* each of two attentions reads queries and
                                                       * writes results */
    /* three layer norms; RMS norm of Q and K with their rotation, and RMS norm of cross-attention's
     * Q */
    const int norms = 3 * (1 + 1), rotation = 2 * (1 + 1) + (1 + 1);

    return products + residuals + attention + (fused ? 0 : norms + rotation);
}

static struct least least_of(const struct size *s, bool fused)
{
    const double L = s->layers, N = 3.0 * s->height * s->width / 4, d = s->dim, f = s->ffn;
    const double keys = (s->past + 1) * N + s->text;

    return (struct least){ L * (rows_moved(fused) * N * d + 2 * N * f) * 2,
                           L * (6 * d * d + 2 * d * f) * 2, L * 2 * keys * d * 2 };
}

/* ---- tests ------------------------------------------------------------------------------- */

static const struct kvr_traffic_line *find(const struct kvr_traffic_line *lines, int n,
                                           const char *what)
{
    for (int i = 0; i < n; i++)
        if (strcmp(lines[i].what, what) == 0)
            return &lines[i];
    return NULL;
}

/* The counted launches and bytes of every kernel equal the prediction, and no other kernel runs. */
START_TEST(counted_as_predicted)
{
    static const struct size sizes[] = { { 64, 2, 96, 32, 32, 16, 4, 8, 8, 2, 1 },
                                         { 32, 2, 80, 32, 48, 24, 2, 4, 12, 3, 2 },
                                         { 128, 2, 96, 32, 32, 16, 4, 16, 24, 1, 2 } };
    struct kvr_traffic_line lines[MOST];
    struct prediction p[MOST];
    const bool groups = _i / 3;
    const struct size *s = &sizes[_i % 3];
    const int n = count(s, groups, lines), n_predicted = predict(s, groups, p);

    for (int i = 0; i < n_predicted; i++) {
        const struct kvr_traffic_line *l = find(lines, n, p[i].what);

        ck_assert_msg(l != NULL, "%s was not launched", p[i].what);
        ck_assert_msg(l->launches == p[i].launches && l->read == p[i].read &&
                          l->written == p[i].written,
                      "%s: %lld launches, %lld bytes read and %lld written; predicted %lld, %lld "
                      "and %lld",
                      p[i].what, (long long)l->launches, (long long)l->read, (long long)l->written,
                      (long long)p[i].launches, (long long)p[i].read, (long long)p[i].written);
    }
    ck_assert_msg(n == n_predicted, "%d kinds of launches, predicted %d", n, n_predicted);
}
END_TEST

/* Path `staged`: grid_decode reads codes once and writes all decoded keys and values once as BF16.
 * Every other kernel is launched as often as with an unquantized cache and moves at most 10 % more
 * bytes. */
START_TEST(staged_is_one_launch_over_bf16)
{
    static const struct {
        const char *method;
        double bits; /* stored bits per element, scales included */
    } t[] = {
        { "RTN_INT4", 5 }, { "KIVI_INT2", 3.125 }, { "QUAROT_KV_INT4", 5 }, { "PRQ_INT4", 10 }
    };
    static const struct size s = { 128, 2, 96, 32, 32, 16, 4, 16, 24, 2, 2 };
    struct kvr_traffic_line plain[MOST], staged[MOST];
    /* number of elements in a layer's past keys and values */
    const int64_t values = 2 * s.past * 3 * (s.height * s.width / 4) * s.dim;
    const int n_plain = count(&s, _i % 2, plain),
              n = count_of(&s, _i % 2, t[_i / 2].method, KVR_PATH_STAGED, staged);
    int decoders = 0;

    for (int i = 0; i < n; i++) {
        const struct kvr_traffic_line *l = &staged[i], *was = find(plain, n_plain, l->what);

        if (strcmp(l->what, "grid_decode") == 0) {
            const double codes = (double)values * s.layers * t[_i / 2].bits / 8;

            decoders++;
            ck_assert_int_eq(l->launches, 2 * s.past * s.layers);
            ck_assert_int_eq(l->written, 2 * values * s.layers);
            ck_assert_msg(fabs((double)l->read - codes) <= .1 * codes,
                          "%s: %lld bytes of codes read, %g stored", t[_i / 2].method,
                          (long long)l->read, codes);
            continue;
        }
        ck_assert_msg(was != NULL, "%s: %s was launched", t[_i / 2].method, l->what);
        ck_assert_msg(l->launches == was->launches,
                      "%s: %lld launches of %s, %lld of an unquantized cache", t[_i / 2].method,
                      (long long)l->launches, l->what, (long long)was->launches);
        const double bytes = (double)(l->read + l->written),
                     of = (double)(was->read + was->written);

        ck_assert_msg(bytes <= 1.1 * of, "%s: %s moves %g bytes, %g of an unquantized cache",
                      t[_i / 2].method, l->what, bytes, of);
    }
    ck_assert_int_eq(decoders, 1);
    ck_assert_int_eq(n, n_plain + 1);
}
END_TEST

/* At Wan 1.3B's size with 21 visible frames, the BF16 scratch memory of 0.2 GB holds all coded keys
 * and values of a layer at once. No F32 scratch memory is needed. */
START_TEST(staged_scratch_at_wans_size)
{
    static const char *const methods[] = { "RTN_INT4", "KIVI_INT2", "QUAROT_KV_INT4", "PRQ_INT4",
                                           "QAQ_INT4" };
    const struct kvr_cache_shape shape = { .n_layers = 30,
                                           .n_heads = 12,
                                           .head_dim = 128,
                                           .tokens_per_frame = 1560,
                                           .frames_per_chunk = 3,
                                           .capacity_frames = 42,
                                           .window_frames = 21,
                                           .exact = KVR_BF16 };
    struct kvr_attend_needs needs;
    struct kvr_attend_bytes b;
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, methods[_i], NULL, 0), KVR_OK);
    needs = kvr_cache_attend_needs(scheme, &shape, KVR_PATH_STAGED);
    b = kvr_cuda_scratch_bytes(&needs);
    ck_assert(!needs.wide);
    ck_assert_msg(b.tiles == 0, "%s: %zu bytes of F32 scratch", methods[_i], b.tiles);
    ck_assert_msg(fabs((double)b.rows - .2e9) <= .1 * .2e9, "%s: %zu bytes of BF16 scratch",
                  methods[_i], b.rows);
    ck_assert_uint_eq(b.rows, 2 * (size_t)21 * 1560 * 12 * 128 * sizeof(kvr_bf16));
    kvr_scheme_close(&scheme);
}
END_TEST

/* Path `decoded`, in a pass that stores nothing. Each layer fills an F32 buffer with zeros, decodes
 * all past keys and values into it and converts them to BF16. The current chunk's keys and values
 * are copied as BF16. */
START_TEST(decoded_moves_the_whole_cache)
{
    static const struct size s = { 128, 2, 96, 32, 32, 16, 4, 16, 24, 2, 2 };
    /* number of elements in a chunk's K and V, all layers */
    const int64_t chunk = 2 * 3 * (s.height * s.width / 4) * s.dim * s.layers;
    const int64_t values = s.past * chunk;
    struct kvr_traffic_line plain[MOST], lines[MOST];
    const int n_plain = count(&s, _i, plain),
              n = count_of(&s, _i, "RTN_INT4", KVR_PATH_DECODED, lines);
    const struct {
        const char *what;
        int64_t launches, read,
            written; /* launches and bytes in addition to those of an unquantized cache */
    } want[] = { { "fill", 2 * s.layers, 0, 4 * values },
                 { "raw_to_bf16", 2 * s.layers, 4 * values, 2 * values },
                 { "copy", 2 * s.layers, 2 * chunk, 2 * chunk } };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct kvr_traffic_line *l = find(lines, n, want[i].what),
                                      *was = find(plain, n_plain, want[i].what);

        ck_assert_msg(l != NULL, "%s was not launched", want[i].what);
        ck_assert_msg(l->launches - (was ? was->launches : 0) == want[i].launches &&
                          l->read - (was ? was->read : 0) == want[i].read &&
                          l->written - (was ? was->written : 0) == want[i].written,
                      "%s: %lld launches, %lld bytes read and %lld written beyond an unquantized "
                      "cache's; predicted %lld, %lld and %lld",
                      want[i].what, (long long)(l->launches - (was ? was->launches : 0)),
                      (long long)(l->read - (was ? was->read : 0)),
                      (long long)(l->written - (was ? was->written : 0)),
                      (long long)want[i].launches, (long long)want[i].read,
                      (long long)want[i].written);
    }
    const struct kvr_traffic_line *decode = find(lines, n, "grid_decode");

    ck_assert(decode && decode->written == 4 * values);
    ck_assert_msg(fabs((double)decode->read - (double)values * 5 / 8) <=
                      .1 * (double)values * 5 / 8,
                  "%lld bytes of codes read", (long long)decode->read);
}
END_TEST

/* The device counts the bytes that its kernels touch: a fill writes them, a copy reads and writes
 * them. */
START_TEST(the_account_itself)
{
    struct kvr_traffic_line lines[4];
    struct kvr_stream *s;
    void *a, *b;

    ck_assert_int_eq(kvr_stream_open(&s), KVR_OK);
    ck_assert_int_eq(kvr_device_alloc(s, &a, 100), KVR_OK);
    ck_assert_int_eq(kvr_device_alloc(s, &b, 100), KVR_OK);
    kvr_device_fill(s, a, 0, 100);
    ck_assert_int_eq(kvr_stream_traffic(s, lines, 4), 0);
    kvr_stream_account(s, true);
    kvr_device_fill(s, a, 1, 60);
    kvr_device_copy(s, b, a, 40);
    kvr_device_copy(s, b, a, 8);
    ck_assert_int_eq(kvr_stream_traffic(s, lines, 4), 2);
    ck_assert_str_eq(lines[0].what, "fill");
    ck_assert(lines[0].launches == 1 && lines[0].read == 0 && lines[0].written == 60);
    ck_assert_str_eq(lines[1].what, "copy");
    ck_assert(lines[1].launches == 2 && lines[1].read == 48 && lines[1].written == 48);
    kvr_stream_account(s, true);
    ck_assert_int_eq(kvr_stream_traffic(s, lines, 4), 0);
    kvr_stream_close(&s);
}
END_TEST

static const struct size wan = { 1536, 12, 8960, 256, 4096, 512, 16, 60, 104, 30, 4 };

/* Returns whether a table line starts with `name` and has `cell` in the column for capability 9.0
 * (if `nine`) or in the column for other capabilities. */
static bool has_cell(const char *line, const char *name, bool nine, const char *cell)
{
    const size_t n = strlen(name);
    const char *at = line + 2 + n + 3; /* "| NAME | NINE | OTHERS |" */

    if (strncmp(line, "| ", 2) != 0 || strncmp(line + 2, name, n) != 0 ||
        strncmp(line + 2 + n, " | ", 3) != 0)
        return false;
    if (!nine) {
        at = strstr(at, " | ");
        if (!at)
            return false;
        at += 3;
    }
    return strncmp(at, cell, strlen(cell)) == 0 && strncmp(at + strlen(cell), " |", 2) == 0;
}

/* The prediction for a forward pass of Wan 1.3B over five chunks, in GB, must equal the table in
 * docs/cuda-internals.md. Loop index 0: other capabilities; 1: capability 9.0. */
START_TEST(at_wans_size)
{
    static const struct {
        double passes, all, activations;
    } most[2] = { { 5.5e9, 27.5e9, 20e9 }, { 4e9, 25.2e9, 17.6e9 } };
    /* lower bound: weights, keys and values are read once */
    const struct least least = least_of(&wan, false);
    struct prediction p[MOST];
    const int n = predict(&wan, _i, p);
    int64_t launches[N_KINDS] = { 0 };
    double bytes[N_KINDS] = { 0 }, all, parts = 0, activations;
    FILE *docs = fopen("docs/cuda-internals.md", "r");
    char text[512], row[256], sums[256];
    int found = 0;

    ck_assert_ptr_nonnull(docs);
    for (int i = 0; i < n; i++) {
        launches[p[i].kind] += p[i].launches;
        bytes[p[i].kind] += (double)(p[i].read + p[i].written);
        if (strcmp(p[i].what, "attend_parts") == 0)
            /* attention writes the partial sums, attend_parts reads them */
            parts = 2 * (double)p[i].read;
    }
    all = bytes[ELEMENTS] + bytes[PRODUCTS] + bytes[ATTENTION];
    activations = all - least.weights - least.keys - parts;
    snprintf(sums, sizeof sums, "%.1f; %.1f; %.1f; %.1f", activations / 1e9, least.weights / 1e9,
             least.keys / 1e9, parts / 1e9);
    ck_assert_msg(bytes[ELEMENTS] <= most[_i].passes, "%.1f GB", bytes[ELEMENTS] / 1e9);
    ck_assert_msg(all <= most[_i].all, "%.1f GB", all / 1e9);
    ck_assert_msg(activations <= most[_i].activations, "%.2f GB", activations / 1e9);
    while (fgets(text, sizeof text, docs)) {
        found += has_cell(text, "activations; weights; keys and values; split-KV's partial sums",
                          _i, sums);
        for (int k = 0; k < N_KINDS; k++) {
            snprintf(row, sizeof row, "%.1f (%lld)", bytes[k] / 1e9, (long long)launches[k]);
            found += has_cell(text, kind_names[k], _i, row);
        }
    }
    fclose(docs);
    for (int k = 0; k < N_KINDS && found != N_KINDS + 1; k++)
        printf("%s%s: %.1f (%lld)\n", kind_names[k], _i ? ", capability 9.0" : "", bytes[k] / 1e9,
               (long long)launches[k]);
    if (found != N_KINDS + 1)
        printf("%s\n", sums);
    ck_assert_int_eq(found, N_KINDS + 1);
}
END_TEST

/* The lower bounds that docs/cuda-internals.md states below its formula. */
START_TEST(the_least)
{
    static const char *const name[] = { "n keys", "19 replaces 31" };
    FILE *docs = fopen("docs/cuda-internals.md", "r");
    char line[512], want[2][64];
    int found = 0;

    ck_assert_ptr_nonnull(docs);
    for (int i = 0; i < 2; i++) {
        const struct least l = least_of(&wan, i);

        snprintf(want[i], sizeof want[i], "%s: %.1f GB.", name[i],
                 (l.activations + l.weights + l.keys) / 1e9);
    }
    while (fgets(line, sizeof line, docs))
        for (int i = 0; i < 2; i++)
            found += strstr(line, want[i]) != NULL;
    fclose(docs);
    ck_assert_msg(found == 2, "'%s' and '%s' are not there", want[0], want[1]);
}
END_TEST

static void remove_model(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    Suite *s = suite_create("traffic");
    TCase *tc = tcase_create("traffic");

    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_account_itself);
    tcase_add_loop_test(tc, staged_is_one_launch_over_bf16, 0, 8);
    tcase_add_loop_test(tc, staged_scratch_at_wans_size, 0, 5);
    tcase_add_loop_test(tc, counted_as_predicted, 0, 6);
    tcase_add_loop_test(tc, at_wans_size, 0, 2);
    tcase_add_test(tc, the_least);
    atexit(remove_model);
    suite_add_tcase(s, tc);
    tc = tcase_create("decoded");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, decoded_moves_the_whole_cache, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
