/* grid_decode_isa.c - dequantization: x^ = (q - z) s + off, with s, z and off as in grid.h. */
#include "methods/codecs/grid/grid_kernels.h"
#include "methods/kernels/pack.h"
#include "methods/kernels/simd.h"

enum { STRIP = KVR_GRID_STRIP };

static inline float bf16_of(float x)
{
    return kvr_bf16_to_f32(kvr_f32_to_bf16(x));
}

/* Scales s, zero points z and offsets `off` of at most STRIP groups. */
struct dequant_params {
    float s[STRIP], z[STRIP], off[STRIP];
};

/* Loads the scales, zero points and offsets of groups [at, at + n). */
static void load_dequant_params(const struct kvr_grid_block *b, int64_t at, int n,
                                struct dequant_params *v)
{
    const float half = b->grid.asym ? 0 : (float)(1 << (b->grid.bits - 1));

    kvr_to_f32(v->s, b->scales + at, KVR_F16, (size_t)n);
    for (int c = 0; c < n; c++) {
        v->z[c] = half;
        v->off[c] = 0;
    }
    if (b->grid.asym)
        kvr_to_f32(b->study ? v->z : v->off, b->scales + b->n_groups + at, KVR_F16, (size_t)n);
}

/* Location of the codes of one token: channel i has the code (p[i] >> shift) & mask. The other bits
 * of p[i] belong to other tokens. */
struct code_row {
    const uint8_t *p;
    int shift;
    unsigned mask;
};

/* Returns where the codes of channels [c0, c0 + n) of token t are. `scratch` has n bytes. */
static struct code_row code_row(const struct kvr_grid_block *b, int64_t t, int64_t c0, int n,
                                uint8_t *scratch)
{
    const int bits = b->grid.bits;

    if (bits & (bits - 1)) { /* bits are spread over several planes: assemble the codes in
                              * `scratch` */
        kvr_unpack_token(b->codes, b->stored, b->channels, bits, t, c0, n, scratch);
        return (struct code_row){ scratch, 0, 255 };
    }
    return (struct code_row){
        b->codes + t / (8 / bits) * b->channels + c0,
        (int)(t % (8 / bits)) * bits,
        (1u << bits) - 1u,
    };
}

static inline float dequantize(unsigned byte, int shift, unsigned mask, float s, float z, float off,
                               bool bf16)
{
    const float x = ((float)(int)((byte >> shift) & mask) - z) * s;

    return bf16 ? bf16_of(bf16_of(x) + off) : x + off;
}

static inline float combine(float old, float x, enum kvr_decode_mode mode)
{
    return mode == KVR_DECODE_SET ? x : mode == KVR_DECODE_ADD ? old + x : old - x;
}

/* Dequantizes n codes. If `along`, all elements belong to group `first` of v. Otherwise element c
 * belongs to group first + c. */
static inline __attribute__((always_inline)) void
plain_row(float *restrict out, struct code_row r, int n, const struct dequant_params *restrict v,
          int first, bool along, bool bf16, enum kvr_decode_mode mode)
{
    const uint8_t *restrict code = r.p;
    const float *s = v->s + first, *z = v->z + first, *off = v->off + first;
    const float s0 = *s, z0 = *z, off0 = *off;

    if (along)
        for (int c = 0; c < n; c++)
            out[c] =
                combine(out[c], dequantize(code[c], r.shift, r.mask, s0, z0, off0, bf16), mode);
    else
        for (int c = 0; c < n; c++)
            out[c] = combine(out[c], dequantize(code[c], r.shift, r.mask, s[c], z[c], off[c], bf16),
                             mode);
}

#ifdef KVR_SIMD
static inline __attribute__((always_inline)) void vector_row(float *out, struct code_row r, int n,
                                                             const struct dequant_params *v,
                                                             int first, bool along,
                                                             enum kvr_decode_mode mode)
{
    const float *s = v->s + first, *z = v->z + first, *off = v->off + first;
    const vf s0 = v_set(*s), z0 = v_set(*z), off0 = v_set(*off);
    const vi mask = i_set((int)r.mask);

#pragma GCC unroll 4
    for (int c = 0; c < n; c += VL) {
        const vf q = v_of_int(i_and(i_right(i_bytes(r.p + c), r.shift), mask));
        const vf x = along ? v_add(v_mul(v_sub(q, z0), s0), off0)
                           : v_add(v_mul(v_sub(q, v_load(z + c)), v_load(s + c)), v_load(off + c));

        v_store(out + c, mode == KVR_DECODE_SET   ? x
                         : mode == KVR_DECODE_ADD ? v_add(v_load(out + c), x)
                                                  : v_sub(v_load(out + c), x));
    }
}
#endif

/* along, bf16 and mode are compile-time constants in every call. */
static inline __attribute__((always_inline)) void some_row(float *out, struct code_row r, int n,
                                                           const struct dequant_params *v,
                                                           int first, bool along, bool bf16,
                                                           enum kvr_decode_mode mode)
{
    int done = 0;

#ifdef KVR_SIMD
    if (!bf16) {
        done = n / VL * VL;
        vector_row(out, r, done, v, first, along, mode);
    }
#endif
    r.p += done;
    if (done < n)
        plain_row(out + done, r, n - done, v, first + (along ? 0 : done), along, bf16, mode);
}

static inline __attribute__((always_inline)) void row(float *out, struct code_row r, int n,
                                                      const struct dequant_params *v, int first,
                                                      bool along, bool bf16,
                                                      enum kvr_decode_mode mode)
{
    if (bf16)
        some_row(out, r, n, v, first, along, true, mode);
    else if (mode == KVR_DECODE_SET)
        some_row(out, r, n, v, first, along, false, KVR_DECODE_SET);
    else if (mode == KVR_DECODE_ADD)
        some_row(out, r, n, v, first, along, false, KVR_DECODE_ADD);
    else
        some_row(out, r, n, v, first, along, false, KVR_DECODE_SUB);
}

/* Parameters of dequantization: channels [c0, c0 + width) of block b are stored in output rows,
 * added to them or subtracted from them, as `mode` says. Output rows are `stride` floats apart. */
struct part {
    const struct kvr_grid_block *b;
    int64_t c0, width, stride;
    enum kvr_decode_mode mode;
};

/* Dequantizes tokens [t0, end) of a grid with axis=tokens. In every channel, these tokens must
 * belong to the same group. */
static void decode_block(const struct part *d, int64_t t0, int64_t end, float *out)
{
    uint8_t scratch[STRIP];
    struct dequant_params v;

    for (int64_t c = 0; c < d->width; c += STRIP) {
        const int m = d->width - c < STRIP ? (int)(d->width - c) : STRIP;

        load_dequant_params(d->b, t0 / d->b->grid.group * d->b->channels + d->c0 + c, m, &v);
        for (int64_t t = t0; t < end; t++)
            row(out + (t - t0) * d->stride + c, code_row(d->b, t, d->c0 + c, m, scratch), m, &v, 0,
                false, d->b->bf16, d->mode);
    }
}

/* Dequantizes one token of a grid with axis=channels or axis=token. */
static void decode_token(const struct part *d, int64_t t, float *out)
{
    const int64_t channels = d->b->channels, end = d->c0 + d->width;
    const int64_t group_size = d->b->grid.axis == KVR_AXIS_TOKEN ? channels : d->b->grid.group;
    uint8_t scratch[STRIP];
    struct dequant_params v;

    for (int64_t c0 = d->c0; c0 < end; c0 += STRIP) {
        const int m = end - c0 < STRIP ? (int)(end - c0) : STRIP;
        const int64_t first_group = (t * channels + c0) / group_size;
        const int64_t last_group = (t * channels + c0 + m - 1) / group_size;
        struct code_row r = code_row(d->b, t, c0, m, scratch);

        load_dequant_params(d->b, first_group, (int)(last_group - first_group) + 1, &v);
        for (int64_t c = c0, i = 0; c < c0 + m; i++) {
            const int64_t next = (first_group + i + 1) * group_size - t * channels;
            const int n = (int)((next < c0 + m ? next : c0 + m) - c);

            row(out + c - d->c0, r, n, &v, (int)i, true, d->b->bf16, d->mode);
            r.p += n;
            c += n;
        }
    }
}

static void part(const struct kvr_grid_block *b, int64_t t0, int64_t end, int64_t c0, int64_t width,
                 enum kvr_decode_mode mode, float *out, int64_t stride)
{
    const struct part d = { b, c0, width, stride, mode };

    while (t0 < end) {
        int64_t next = t0 + 1;

        if (b->grid.axis == KVR_AXIS_TOKENS) {
            next = (t0 / b->grid.group + 1) * b->grid.group;
            next = next < end ? next : end;
            decode_block(&d, t0, next, out);
        } else {
            decode_token(&d, t0, out);
        }
        out += (next - t0) * stride;
        t0 = next;
    }
}

const struct kvr_grid_decoders KVR_ISA_NAME(kvr_grid_decoders) = { .part = part };
