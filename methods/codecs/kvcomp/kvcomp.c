/* kvcomp.c - the stage `kvcomp`: integer quantization with one scale per token or per 64 tokens,
 * followed by a Huffman code (KVComp, arXiv:2509.00579, 2d18a51). The format is in kvcomp.h, the
 * CUDA decoder in kvcomp_cuda.cu.
 *
 * The number of Huffman-coded bytes of a block depends on the data (kvr_stage_data.n_entries).
 * KVComp builds one Huffman code per layer from the first chunk, and cannot encode symbols that do
 * not occur in this chunk. Here each block has its own Huffman code, which contains all symbols.
 * Blocks start at multiples of 64 tokens of the rollout. A chunk's tokens after the last multiple
 * stay in BF16 until the next chunk is stored. If a token has a NaN or an infinity, all tokens that
 * share its scale decode to NaN. Blocks in CUDA memory are encoded on the host. */
#include "methods/codecs/kvcomp/kvcomp.h"

#include <stdlib.h>
#include <string.h>

enum { TOKEN, BLOCK };
static const char *const over_names[] = { "token", "block", NULL };

struct kvcomp_opts {
    double rel;
    int bits, over;
};
static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct kvcomp_opts, rel, 0.1, 0.001, 1,
                  "quantization step, as a fraction of the range (max - min) of the token or, with "
                  "over=block, of 64 tokens"),
    KVR_OPT_INT(struct kvcomp_opts, bits, 4, 2, 4, "maximum bits per symbol"),
    KVR_OPT_ENUM(
        struct kvcomp_opts, over, TOKEN, over_names,
        "number of tokens that share a quantization step and a zero point: one (token) or 64 "
        "(block)"),
    { 0 }
};

static struct kvcomp kvcomp_of(const struct kvr_stage_job *job)
{
    const struct kvcomp_opts *o = job->opts;

    return (struct kvcomp){
        .bits = o->bits,
        .by_token = o->over == TOKEN,
        .rel = (float)o->rel,
        .n_tok = job->shape.n_tok,
        .blocks = job->shape.n_tok / KVCOMP_BLOCK,
        .n_heads = job->shape.n_heads,
        .head_dim = job->shape.head_dim,
    };
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const int most = UINT16_MAX / KVCOMP_LENGTHS * 8 / KVCOMP_BLOCK;

    if (job->shape.head_dim > most)
        return kvr_fail(KVR_EINVAL, "head_dim (channels per head) is %d, at most %d is supported",
                        job->shape.head_dim, most);
    return KVR_OK;
}

/* Returns an upper bound of the bytes of codes. A Huffman code needs on average at most `bits` bits
 * per element, like a fixed-length code. One byte per unit (64 tokens of a head) is added for
 * padding. The code is computed for counts that are increased by one per symbol. This costs at most
 * KVCOMP_LENGTHS bits for each of the KVCOMP_SYMBOLS symbols. */
static int64_t most_of(const struct kvcomp *g)
{
    const int64_t elements = g->blocks * KVCOMP_BLOCK * g->n_heads * g->head_dim;

    return g->blocks ? (elements * g->bits + 7) / 8 + g->blocks * g->n_heads +
                           (int64_t)(KVCOMP_SYMBOLS * KVCOMP_LENGTHS / 8)
                     : 0;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct kvcomp g = kvcomp_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = (size_t)kvcomp_tail(&g), .meta = (size_t)kvcomp_params(&g) },
        .entry.codes = 1,
        .most_entries = most_of(&g),
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
        .unit_tokens = KVCOMP_BLOCK,
        .origin_tokens = KVCOMP_BLOCK,
    };
}

/* ---- symbols ------------------------------------------------------------------------------- */

static void code_span(const struct kvcomp *g, const float *x, int64_t t0, int64_t n,
                      uint8_t *params, uint8_t *q)
{
    const int64_t width = g->n_heads * g->head_dim;
    float lo = INFINITY, hi = -INFINITY;
    struct packkv_fit f;
    bool bad = false;

    for (int64_t i = t0 * width; i < (t0 + n) * width; i++) {
        const float v = packkv_half(x[i]);

        bad = bad || (kvr_f32_bits(x[i]) & 0x7fffffffu) >= 0x7f800000u;
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    f = packkv_fit(lo, hi, g->rel, bad);
    cells_put(params, kvcomp_scale_at(g, t0), 2, cells_store(CELLS_F16, f.s));
    cells_put(params, kvcomp_scale_at(g, t0) + 2, 2, cells_store(CELLS_F16, f.z));
    for (int64_t i = t0 * width; i < (t0 + n) * width; i++)
        q[i] = (uint8_t)packkv_coded(&f, x[i], g->bits);
}

/* ---- Huffman code ------------------------------------------------------------------------- */

struct node {
    int64_t count;
    int parent;
};

/* Computes the Huffman code lengths of n symbols, by repeatedly merging the two nodes with the
 * smallest counts. On ties the nodes with lower indices are merged. */
static void make_code(const int64_t *count, int n, uint8_t *length)
{
    struct node node[2 * KVCOMP_SYMBOLS];

    for (int i = 0; i < n; i++)
        node[i] = (struct node){ count[i], -1 };
    for (int m = n; m < 2 * n - 1; m++) {
        node[m] = (struct node){ 0, -1 };
        for (int k = 0; k < 2; k++) {
            int best = 0;

            while (node[best].parent >= 0)
                best++;
            for (int i = best + 1; i < m; i++)
                if (node[i].parent < 0 && node[i].count < node[best].count)
                    best = i;
            node[best].parent = m;
            node[m].count += node[best].count;
        }
    }
    for (int i = 0; i < n; i++) {
        length[i] = 0;
        for (int at = node[i].parent; at >= 0; at = node[at].parent)
            length[i]++;
    }
}

/* Computes the canonical Huffman codes for the given code lengths. */
static void number_codes(const uint8_t *length, unsigned *code)
{
    unsigned next = 0;

    for (int l = 1; l < KVCOMP_LENGTHS; l++, next <<= 1)
        for (int q = 0; q < KVCOMP_SYMBOLS; q++)
            if (length[q] == l)
                code[q] = next++;
}

/* ---- packing ------------------------------------------------------------------------------- */

/* Packs the code words of 64 tokens in head h (a unit) into `to`, which the caller has filled with
 * zeros. Returns the number of packed bytes. */
static int64_t pack_unit(const struct kvcomp *g, const uint8_t *q, int64_t block, int64_t h,
                         const unsigned *code, uint8_t *params, uint8_t *to)
{
    const int64_t width = g->n_heads * g->head_dim;
    int64_t bit = 0;

    for (int64_t t = block * KVCOMP_BLOCK; t < (block + 1) * KVCOMP_BLOCK; t++) {
        const int64_t begin = bit;

        for (int64_t c = 0; c < g->head_dim; c++) {
            const int symbol = q[t * width + h * g->head_dim + c];

            for (int i = params[symbol] - 1; i >= 0; i--, bit++)
                to[bit / 8] = (uint8_t)(to[bit / 8] | (code[symbol] >> i & 1u) << bit % 8);
        }
        cells_put(params, kvcomp_vector_at(g, t, h), 2, (unsigned)(bit - begin));
    }
    return (bit + 7) / 8;
}

static enum kvr_status code_block(const struct kvr_stage_job *job, const struct kvcomp *g,
                                  const float *x, uint8_t *q, struct kvr_stage_data *out)
{
    const int64_t width = g->n_heads * g->head_dim, coded = g->blocks * KVCOMP_BLOCK;
    const int64_t step = g->by_token ? 1 : KVCOMP_BLOCK;
    int64_t count[KVCOMP_SYMBOLS], bits = 0, end = 0;
    unsigned code[KVCOMP_SYMBOLS] = { 0 };
    uint8_t *params, *to;

    KVR_TRY(kvr_buf_alloc(&out->meta, job->dev, KVR_MEM_META, (size_t)kvcomp_params(g)));
    params = out->meta.p;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < coded; t += step)
        code_span(g, x, t, step, params, q);
    for (int i = 0; i < KVCOMP_SYMBOLS; i++)
        count[i] = 1;
    for (int64_t i = 0; i < coded * width; i++)
        count[q[i]]++;
    make_code(count, 1 << g->bits, params);
    number_codes(params, code);
    for (int i = 0; i < 1 << g->bits; i++)
        bits += (count[i] - 1) * params[i];
    /* The scratch has one byte of padding per unit (64 tokens of a head). Only the bytes in use are
     * copied to out->codes. */
    uint8_t *scratch = calloc((size_t)(bits / 8 + g->blocks * g->n_heads + 1), 1);
    if (!scratch)
        return kvr_fail(KVR_ENOMEM, "kvcomp: out of memory while allocating %lld bits",
                        (long long)bits);
    for (int64_t b = 0; b < g->blocks; b++)
        for (int64_t h = 0; h < g->n_heads; h++) {
            const int64_t n = pack_unit(g, q, b, h, code, params, scratch + end);

            cells_put(params, kvcomp_unit_at(g, b, h), 4, (unsigned)end);
            cells_put(params, kvcomp_unit_at(g, b, h) + 4, 2, (unsigned)n);
            end += n;
        }
    out->n_entries = end;
    enum kvr_status st =
        kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, (size_t)(kvcomp_tail(g) + end));

    to = out->codes.p;
    if (st == KVR_OK && kvcomp_tail(g))
        kvr_from_f32(to, KVR_BF16, x + coded * width, (size_t)kvcomp_tail(g) / 2);
    if (st == KVR_OK && end)
        memcpy(to + kvcomp_tail(g), scratch, (size_t)end);
    free(scratch);
    return st;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct kvcomp g = kvcomp_of(job);
    const size_t n = (size_t)(g.blocks * KVCOMP_BLOCK * g.n_heads * g.head_dim);
    uint8_t *q = malloc(n + 1);
    enum kvr_status st =
        q ? code_block(job, &g, x, q, out)
          : kvr_fail(KVR_ENOMEM, "kvcomp: out of memory while allocating %zu symbols", n);

    free(q);
    return st;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct kvcomp g = kvcomp_of(job);
    const uint8_t *codes = in->codes.p, *params = in->meta.p;
    const struct kvcomp_code k = kvcomp_open(params);

    for (int64_t t = t0; t < t0 + n; t++)
        for (int64_t h = h0; h < h0 + nh; h++, out += g.head_dim) {
            const int64_t left = t - g.blocks * KVCOMP_BLOCK;
            int64_t at, bit;
            float s, z;

            if (left >= 0) {
                const kvr_bf16 *raw = (const kvr_bf16 *)codes + (left * g.n_heads + h) * g.head_dim;

                for (int64_t c = 0; c < g.head_dim; c++)
                    kvr_part_put(mode, out, c, kvr_bf16_to_f32(raw[c]));
                continue;
            }
            bit = kvcomp_find(&g, params, t, h, &at);
            s = cells_load(CELLS_F16, cells_get(params, kvcomp_scale_at(&g, t), 2));
            z = cells_load(CELLS_F16, cells_get(params, kvcomp_scale_at(&g, t) + 2, 2));
            for (int64_t c = 0; c < g.head_dim; c++)
                kvr_part_put(mode, out, c,
                             packkv_value((unsigned)kvcomp_next(&k, codes, at, &bit), s, z));
        }
}

KVR_READ_CUDA(kvcomp)

const struct kvr_stage kvr_stage_kvcomp = {
    KVR_CODED_STAGE(kvcomp),
    .title = "Huffman-coded integers with a quantization step per token or per 64 tokens",
    .check = check,
    .noise = kvr_noise_measured,
};
