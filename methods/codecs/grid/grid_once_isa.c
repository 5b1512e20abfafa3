/* grid_once_isa.c - kernels that, in one pass, encode a grid, list likely outliers, and compute the
 * sums that determine the outlier bound (grid_once_kernels.h). A value whose magnitude exceeds this
 * bound is an outlier. The arithmetic is in grid_narrow.h. */
#include "methods/codecs/grid/grid_once_kernels.h"

#include "methods/codecs/grid/grid_narrow.h"

#ifdef KVR_SIMD
/* F32 sums of values and of their squares. Even and odd channels have separate sums, because the
 * loads put them in separate vectors. */
struct sums {
    vf even, odd, square_even, square_odd;
};

ALWAYS void add_to(struct sums *s, vf even, vf odd)
{
    s->even = v_add(s->even, even);
    s->odd = v_add(s->odd, odd);
    s->square_even = v_mul_add(even, even, s->square_even);
    s->square_odd = v_mul_add(odd, odd, s->square_odd);
}

ALWAYS struct sums no_sums(void)
{
    return (struct sums){ v_set(0), v_set(0), v_set(0), v_set(0) };
}

ALWAYS void keep_sums(struct kvr_grid_seen *seen, vf sum, vf square)
{
    d_store(seen->sum, d_add(d_load(seen->sum), d_pairs(sum)));
    d_store(seen->square, d_add(d_load(seen->square), d_pairs(square)));
}

/* ---- groups of tokens in a column ------------------------------------------------------ */

/* Appends columns of a span to the list of strays. A stray is a column that may have outliers and
 * is encoded again when their bound is known. If bit j of `some` is set, column c + j of r is
 * appended. */
static void set_aside(struct kvr_grid_seen *seen, const struct kvr_narrow_rows *r, int c,
                      uint32_t some)
{
    for (; some; some &= some - 1) {
        struct kvr_grid_stray *s = &seen->stray[seen->n++];
        const int at = c + __builtin_ctz(some);
        const kvr_bf16 *x = r->x + at;

        s->t0 = (int32_t)r->t0;
        s->c = (int32_t)r->c0 + at;
        s->before = r->t0 > 0 ? x[-r->stride] : 0;
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            s->x[i] = x[i * r->stride];
    }
}

/* Computes the scales of the groups in n spans, as fit_narrow() does. Appends columns that have a
 * magnitude above `least` to the list of strays (set_aside()). Returns 0 if the list is full, else
 * the result of fit_strip(). */
ALWAYS int fit_seeing(const struct tile_position *p, const struct kvr_narrow_rows *r, int c, int n,
                      struct variant variant, uint16_t least, struct kvr_grid_seen *seen,
                      struct encode_params *k)
{
    const vi least_w = w_set((short)least);
    struct range range[COLUMNS];

    for (int j = 0; j < n; j++) {
        vi low, high;
        uint32_t some;

        fetch(r->prefetch, c + j * SPAN);
        range_of_narrow(r->x + c + j * SPAN, r->stride, &low, &high);
        range[2 * j] = (struct range){ v_bits(evens(low)), v_bits(evens(high)) };
        range[2 * j + 1] = (struct range){ v_bits(odds(low)), v_bits(odds(high)) };
        some = w_bits_over(low, least_w) | w_bits_over(high, least_w);
        if (seen->n + __builtin_popcount(some) > seen->most)
            return 0;
        if (some)
            set_aside(seen, r, c + j * SPAN, some);
    }
    return fit_strip(p, n, range, variant, k);
}

/* Quantizes and packs n spans of a strip with the scales in `params`. Adds their values and squares
 * to the sums in `all`, from which the caller computes the outlier bound. */
ALWAYS void code_seeing(const struct tile_position *p, const struct kvr_narrow_rows *r, int c,
                        int n, struct variant variant, const struct encode_params *params,
                        struct sums *all)
{
    const int per = 8 / variant.bits;
    const int64_t channels = p->b->channels, stride = r->stride;

    for (int j = 0; j < n; j++) {
        const struct encode_params k[2] = { params[2 * j], params[2 * j + 1] };
        const kvr_bf16 *x = r->x + c + j * SPAN;
        uint8_t *to = codes_at(p, 0, variant.bits) + j * SPAN;
        struct sums sum = no_sums();

#pragma GCC unroll 8
        for (int i = 0; i < N; i += 2 * per, to += 2 * channels) {
            struct token_rows a, b;

            load_tokens(x + i * stride, stride, per, &a);
            load_tokens(x + (i + per) * stride, stride, per, &b);
#pragma GCC unroll 4
            for (int t = 0; t < per; t++) {
                add_to(&sum, a.even[t], a.odd[t]);
                add_to(&sum, b.even[t], b.odd[t]);
            }
            i_store_lows(to, to + channels, word_of(&a, k, variant), word_of(&b, k, variant));
        }
        all->even = v_add(all->even, v_add(sum.even, sum.odd));
        all->square_even = v_add(all->square_even, v_add(sum.square_even, sum.square_odd));
    }
}

ALWAYS bool code_columns(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                         struct variant variant, uint16_t least, struct kvr_grid_seen *seen)
{
    struct encode_params k[COLUMNS];
    struct sums all = no_sums();

    for (int c = 0; c < m; c += STRIP) {
        const struct tile_position p = { b, r->t0, r->c0 + c };
        const int n = (m - c < STRIP ? m - c : STRIP) / SPAN;

        if (fit_seeing(&p, r, c, n, variant, least, seen, k) < n)
            return false;
        code_seeing(&p, r, c, n, variant, k, &all);
    }
    keep_sums(seen, all.even, all.square_even);
    return true;
}

static bool tokens(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int m,
                   uint16_t least, struct kvr_grid_seen *seen)
{
#define CALL(...) code_columns(b, r, m, (struct variant){ __VA_ARGS__ }, least, seen)
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

static int64_t mark(struct kvr_grid_stray *stray, int64_t n, uint16_t bound)
{
    const __m256i size = _mm256_set1_epi16(0x7fff), most = _mm256_set1_epi16((short)bound);
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)stray[i].x);
        const __m256i over = _mm256_cmpgt_epi16(_mm256_and_si256(x, size), most);
        const __m128i bytes =
            _mm_packs_epi16(_mm256_castsi256_si128(over), _mm256_extracti128_si256(over, 1));

        stray[i].over = (uint16_t)_mm_movemask_epi8(bytes);
        count += __builtin_popcount(stray[i].over);
    }
    return count;
}

/* Quantizes again n <= VL strays (columns with outliers), one per vector lane. A value whose
 * magnitude bits exceed `bound` is an outlier, which is replaced by the value of the preceding
 * token. */
ALWAYS void mend(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int n,
                 uint16_t bound, struct variant variant)
{
    const struct kvr_grid g = { .bits = variant.bits, .asym = variant.asym };
    const vi size = i_set(0x7fffffff), most = i_set(bound << 16);
    const int per = 8 / variant.bits;
    int32_t at[N + 1][VL], scale[VL], zero[VL], byte[VL];
    vi before, low = i_set(INT32_MAX), high = i_set(INT32_MIN);
    struct v_quant_params f;
    struct encode_params k;
    vf x[N];

    for (int j = 0; j < VL; j++) {
        const struct kvr_grid_stray *s = &stray[j < n ? j : 0];

        at[N][j] = (int32_t)((uint32_t)s->before << 16);
#pragma GCC unroll 16
        for (int i = 0; i < N; i++)
            at[i][j] = (int32_t)((uint32_t)s->x[i] << 16);
    }
    before = i_load(at[N]);
#pragma GCC unroll 16
    for (int i = 0; i < N; i++) {
        const vi v = i_load(at[i]);

        before = i_pick(i_over(i_and(v, size), most), before, v);
        x[i] = v_of_bits(before);
        low = i_min(low, in_order(x[i]));
        high = i_max(high, in_order(x[i]));
    }
    f = v_fit(&g, low, high);
    k = encode_params_of(f.s, f.m, variant);
    i_store(scale, f.scale);
    i_store(zero, f.zero);
    for (int j = 0; j < n; j++) {
        kvr_f16 *scales = b->scales + stray[j].t0 / N * b->channels + stray[j].c;

        scales[0] = (kvr_f16)scale[j];
        if (variant.asym)
            scales[b->n_groups] = (kvr_f16)zero[j];
    }
    for (int i = 0; i < N; i += per) {
        i_store(byte, i_add(byte_of(&x[i], &k, 0, variant), i_set(bias_of(variant))));
        for (int j = 0; j < n; j++)
            b->codes[(stray[j].t0 + i) / per * b->channels + stray[j].c] = (uint8_t)byte[j];
    }
}

/* Prefetches the code bytes and scales that mend() writes for n strays. The code bytes of a column
 * are in different cache lines. */
ALWAYS void fetch_codes(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray,
                        int64_t n, struct variant variant)
{
    const int per = 8 / variant.bits;

    for (int64_t j = 0; j < n; j++) {
        uint8_t *to = b->codes + stray[j].t0 / per * b->channels + stray[j].c;

        for (int i = 0; i < N; i += per, to += b->channels)
            __builtin_prefetch(to, 1, 2);
        __builtin_prefetch(b->scales + stray[j].t0 / N * b->channels + stray[j].c, 1, 2);
    }
}

ALWAYS bool mend_all(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                     uint16_t bound, struct variant variant)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t left = n - i - VL;

        fetch_codes(b, stray + i + VL, left < VL ? left : VL, variant);
        mend(b, stray + i, n - i < VL ? (int)(n - i) : VL, bound, variant);
    }
    return true;
}

static bool columns(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                    uint16_t bound){
#define CALL(...) mend_all(b, stray, n, bound, (struct variant){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

/* ---- groups of whole tokens ------------------------------------------------------------ */

/* Adds 64 values and their squares to `sum`. Returns a mask of the values whose magnitude exceeds
 * `least`. The other values update *most, the maximum of their bits as signed integers, and
 * *most_bits, the maximum as unsigned integers. The AVX2 version counts masked values as 0, which
 * is harmless: look() rejects tokens without values of both signs. */
ALWAYS uint64_t scan_word(const kvr_bf16 *x, vi least, struct sums sum[2], vi *most, vi *most_bits)
{
    enum { PARTS = 64 / SPAN };
    uint64_t over = 0;

#pragma GCC unroll 4
    for (int j = 0; j < PARTS; j++) {
        const vi raw = i_load(x + j * SPAN), size = i_and(raw, w_set(0x7fff));

        __builtin_prefetch(x + j * SPAN + 1024, 0, 3);
        add_to(&sum[j % 2], evens(raw), odds(raw));
#ifdef KVR_ISA_AVX512
        const __mmask32 core = _mm512_cmple_epi16_mask(size, least);

        *most = _mm512_mask_max_epi16(*most, core, *most, raw);
        *most_bits = _mm512_mask_max_epu16(*most_bits, core, *most_bits, raw);
        over |= (uint64_t)(uint32_t)~core << j * SPAN;
#else
        const vi beyond = _mm256_cmpgt_epi16(size, least), core = i_and_not(beyond, raw);

        *most = w_max(*most, core);
        *most_bits = w_max_bits(*most_bits, core);
        if (__builtin_expect(!_mm256_testz_si256(beyond, beyond), 0))
            over |= (uint64_t)w_bits_over(raw, least) << j * SPAN;
#endif
    }
    return over;
}

static bool look(const kvr_bf16 *x, int64_t n, uint16_t least, struct kvr_grid_seen *seen,
                 uint64_t *over, int32_t range[2])
{
    enum { LONGEST = 1024 };
    const vi least_w = w_set((short)least);
    vi most = w_set(-1), most_bits = i_set(0);
    int32_t low, high;

    for (int64_t e = 0; e < n;) {
        const int64_t end = n - e < LONGEST ? n : e + LONGEST;
        struct sums sum[2] = { no_sums(), no_sums() };

        for (; e < end; e += 64)
            over[e / 64] = scan_word(x + e, least_w, sum, &most, &most_bits);
        keep_sums(seen, v_add(v_add(sum[0].even, sum[0].odd), v_add(sum[1].even, sum[1].odd)),
                  v_add(v_add(sum[0].square_even, sum[0].square_odd),
                        v_add(sum[1].square_even, sum[1].square_odd)));
    }
    high = i_most(i_max(v_bits(evens(most)), v_bits(odds(most))));
    low = (int32_t)i_most_bits(i_max_bits(v_bits(evens(most_bits)), v_bits(odds(most_bits))));
    range[0] = low ^ 0x7fffffff;
    range[1] = high;
    return high > 0 && low < 0;
}

static bool rows(const struct kvr_grid_block *b, const struct kvr_narrow_rows *r, int n,
                 const int32_t *low, const int32_t *high)
{
#define CALL(...) code_ranged(b, r, n, low, high, true, (struct variant){ __VA_ARGS__ })
    BY_GRID(b->grid, false, CALL)
#undef CALL
}

const struct kvr_grid_once KVR_ISA_NAME(kvr_grid_once) = {
    .exists = true,
    .tokens = tokens,
    .mark = mark,
    .columns = columns,
    .look = look,
    .rows = rows,
};
#else
const struct kvr_grid_once KVR_ISA_NAME(kvr_grid_once) = { 0 };
#endif
