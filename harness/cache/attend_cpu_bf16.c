/* attend_cpu_bf16.c - decodes tiles to BF16 panels and computes attention over several tiles at
 * once, with the kernels of attend_bf16.h. */
#include "harness/cache/attend_cpu.h"

#include <string.h>

enum { ROWS = KVR_BF16_ROWS, GROUP = KVR_BF16_GROUP, WIDE = GROUP * TILE };

/* Minimum head dimension for BF16 panels, whose rows are padded to KVR_BF16_STEP channels. Panels
 * of narrower heads would exceed the buffer, which has the size of F32 panels. */
enum { NARROWEST = KVR_BF16_STEP / 2 };

bool kvr_tile_bf16(const struct kvr_attend_job *job, const struct tile *tile)
{
    return job->bf16 && !tile->bytes && job->head_dim >= NARROWEST;
}

/* Returns the address of the BF16 keys of head h in a tile, or of its values if `values`.
 * Successive rows are *ld elements apart. Returns NULL if the tile has tokens of several spans, or
 * if its rows are not stored as BF16. */
static const kvr_bf16 *stored(const struct kvr_attend_job *job, const struct tile *tile, int h,
                              bool values, int64_t *ld)
{
    const struct part *p = &tile->part[0];
    const struct kvr_span *s = p->span;
    const struct kvr_packed *coded = !s->seg ? NULL : values ? &s->seg->v : &s->seg->k;
    const kvr_bf16 *rows = NULL;
    int heads = job->n_heads;

    if (tile->n_parts > 1)
        return NULL;
    if (!s->seg && s->raw.dtype == KVR_BF16)
        rows = values ? s->raw.v : s->raw.k;
    if (coded && s->seg->kind != KVR_SEG_ZERO && kvr_codec_is_bf16(coded->codec)) {
        rows = coded->stage[0].codes.p;
        heads = coded->shape.n_heads;
        h -= s->seg->head0;
    }
    if (!rows)
        return NULL;
    *ld = (int64_t)heads * job->head_dim;
    rows += (s->t0 + p->t0) * *ld + (int64_t)h * job->head_dim;
    for (int t = 0; t < p->n; t++) /* hardware does not prefetch rows at large strides */
        for (int c = 0; c < job->head_dim; c += 32)
            __builtin_prefetch(rows + t * *ld + c);
    return rows;
}

void kvr_bf16_stage(const struct kvr_attend_job *job, const struct tile *tile, int h, bool values,
                    struct staged out)
{
    const struct kvr_bf16_kernels *f = kvr_bf16_kernels();
    const int d = job->head_dim;
    int64_t ld = d;
    const kvr_bf16 *rows = stored(job, tile, h, values, &ld);
    float wide[TILE * MAX_D];
    kvr_bf16 narrow[TILE * MAX_D];

    if (!rows) {
        kvr_tile_load(job, tile, h, values, wide);
        kvr_from_f32(narrow, KVR_BF16, wide, (size_t)tile->n * (size_t)d);
        rows = narrow;
    }
    if (values)
        f->pack_values(rows, ld, tile->n, d, (kvr_bf16 *)out.v);
    else
        f->pack_keys(rows, ld, tile->n, d, (kvr_bf16 *)out.k);
}

int kvr_bf16_tiles_per_softmax(const struct kvr_attend_job *job, const struct tile *tile, int n)
{
    int i = 1;

    if (!kvr_tile_bf16(job, tile) || tile->causal)
        return 1;
    while (i < n && i < GROUP && tile[i - 1].n == TILE && kvr_tile_bf16(job, &tile[i]) &&
           !tile[i].causal && tile[i].rot_k == tile->rot_k && tile[i].rot_v == tile->rot_v)
        i++;
    return i;
}

static struct staged moved(struct staged s, size_t by)
{
    return (struct staged){ s.k + by, s.v + by, s.bias + by };
}

void kvr_bf16_attend(const struct kvr_attend_job *job, const struct state *st, int h, int64_t at,
                     int m, const struct tile *tile, int n, struct staged kv, size_t next)
{
    const struct kvr_bf16_kernels *f = kvr_bf16_kernels();
    const int d = job->head_dim, wide = kvr_bf16_padded(d), dp = padded(d);
    const int last = kvr_bf16_padded(tile[n - 1].n), all = (n - 1) * TILE + last;
    const float *q = (tile->rot_k ? st->q_rot : st->q) + at * d;
    float *acc = (tile->rot_v ? st->acc_rot : st->acc) + at * dp;
    float s[ROWS * WIDE] __attribute__((aligned(64))), rescale[ROWS];
    kvr_bf16 q16[ROWS * MAX_D] __attribute__((aligned(64)));
    kvr_bf16 p[ROWS * WIDE] __attribute__((aligned(64)));

    if (kvr_tile_after(job, st, tile, h, at, m))
        return;
    for (int i = 0; i < m; i++) {
        kvr_from_f32(q16 + i * wide, KVR_BF16, q + (int64_t)i * d, (size_t)d);
        memset(q16 + i * wide + d, 0, (size_t)(wide - d) * sizeof *q16);
    }
    for (int i = 0; i < n; i++) {
        const struct staged x = moved(kv, (size_t)i * next);
        const int columns = i < n - 1 ? TILE : last;
        float *to = s + i * TILE;

        f->scores(q16, wide, d, (const kvr_bf16 *)x.k, to, WIDE, m, columns);
        if (job->correction)
            kvr_tile_subtract_correction(job, &tile[i], h, q, m, to, WIDE);
        if (tile[i].causal)
            kvr_tile_mask_causal(job, &tile[i], at - h * rows_of(job), m, to, WIDE);
        if (tile[i].biased || tile[i].n < columns)
            f->add_bias(to, WIDE, x.bias, m, columns);
    }
    f->online_softmax(s, WIDE, m, all, st->mx + at, st->sum + at, rescale, p, WIDE);
    kvr_state_rescale(job, st, at, m, rescale);
    f->add_values(p, WIDE, (const kvr_bf16 *)kv.v, (int64_t)next * 2, all, acc, dp, m, dp);
}
