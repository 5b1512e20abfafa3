/* probe_rows.c - computes the probe's statistics (result rows) from its sums. */
#include "harness/workload/probe_impl.h"

#include <math.h>
#include <stddef.h>

#define SUM(member) offsetof(struct kvr_probe_sums, member)

/* The probe's statistics: each is num / den or its square root, and n is its number of samples. */
static const struct {
    const char *name;
    size_t num, den, n;
    bool root, by_age;
} numbers[] = {
    { "delta_a", SUM(delta), SUM(queries), SUM(queries), false, true },
    { "mass_bf16", SUM(mass), SUM(queries), SUM(queries), false, true },
    { "jsd", SUM(jsd), SUM(queries), SUM(queries), false, false },
    { "attn_out_mse", SUM(out_se), SUM(queries), SUM(queries), false, false },
    { "attn_out_rel", SUM(out_se), SUM(out_energy), SUM(queries), true, false },
    { "attn_out_rel_k", SUM(out_k_se), SUM(out_energy), SUM(queries), true, false },
    { "attn_out_rel_v", SUM(out_v_se), SUM(out_energy), SUM(queries), true, false },
    { "top1_agreement", SUM(top1), SUM(queries), SUM(queries), false, false },
    { "topk_recall", SUM(top_found), SUM(top), SUM(top), false, true },
    { "keys_bf16", SUM(keys), SUM(queries), SUM(queries), false, false },
    { "mass_on_zero", SUM(on_zero), SUM(queries), SUM(queries), false, false },
    { "mass_on_summary", SUM(on_summary), SUM(queries), SUM(queries), false, false },
    { "mass_lost", SUM(lost), SUM(queries), SUM(queries), false, false },
    { "k_mse", SUM(se[0]), SUM(elements), SUM(tokens), false, true },
    { "k_rel_error", SUM(se[0]), SUM(energy[0]), SUM(tokens), true, true },
    { "v_mse", SUM(se[1]), SUM(elements), SUM(tokens), false, true },
    { "v_rel_error", SUM(se[1]), SUM(energy[1]), SUM(tokens), true, true },
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static double get(const struct kvr_probe_sums *s, size_t offset)
{
    double v;

    memcpy(&v, (const char *)s + offset, sizeof v);
    return v;
}

static void add(struct kvr_probe_sums *to, const struct kvr_probe_sums *s)
{
    const double *from = (const double *)s;
    double *sum = (double *)to;

    for (size_t i = 0; i < sizeof *s / sizeof *from; i++)
        sum[i] += from[i];
}

static enum kvr_status emit(const struct kvr_probe_sums *s, const struct kvr_probe_row *where,
                            int number, kvr_probe_row_fn *fn, void *ctx)
{
    struct kvr_probe_row row = *where;
    const double q = get(s, numbers[number].num) / get(s, numbers[number].den);

    row.name = numbers[number].name;
    row.value = numbers[number].root ? sqrt(q) : q;
    row.n = (int64_t)get(s, numbers[number].n);
    return fn(ctx, &row);
}

/* Emits the statistics of one layer, head, pass, chunk and age of keys (in chunks). Statistics
 * without samples are omitted. */
static enum kvr_status emit_all(const struct kvr_probe_sums *s, const struct kvr_probe_row *where,
                                kvr_probe_row_fn *fn, void *ctx)
{
    for (int i = 0; i < N_NUMBERS; i++)
        if (get(s, numbers[i].n) > 0 && (where->age < 0 || numbers[i].by_age))
            KVR_TRY(emit(s, where, i, fn, ctx));
    return KVR_OK;
}

/* first() and last() return the bounds of a loop over layers, heads, passes or chunks: [index,
 * index + 1) for one of them, or [0, n) for all if index is negative. */
static int first(int index)
{
    return index < 0 ? 0 : index;
}

static int last(int index, int n)
{
    return index < 0 ? n : index + 1;
}

static struct kvr_probe_sums gather(const struct kvr_probe *p, const struct kvr_probe_row *w)
{
    struct kvr_probe_sums s = { 0 };

    for (int l = first(w->layer); l < last(w->layer, p->shape.n_layers); l++)
        for (int h = first(w->head); h < last(w->head, p->shape.n_heads); h++) {
            if (w->age >= 0) {
                add(&s, kvr_probe_age(p, l, h, w->age));
                continue;
            }
            for (int i = first(w->pass); i < last(w->pass, p->opts.n_passes); i++)
                for (int c = first(w->chunk); c < last(w->chunk, p->n_chunks); c++)
                    add(&s, kvr_probe_call(p, l, h, i, c));
        }
    return s;
}

static struct kvr_probe_row at(int layer, int head, int pass, int chunk, int age)
{
    return (struct kvr_probe_row){
        .layer = layer, .head = head, .pass = pass, .chunk = chunk, .age = age
    };
}

static enum kvr_status put(const struct kvr_probe *p, struct kvr_probe_row where,
                           kvr_probe_row_fn *fn, void *ctx)
{
    const struct kvr_probe_sums s = gather(p, &where);

    return emit_all(&s, &where, fn, ctx);
}

static enum kvr_status put_margins(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx)
{
    for (int l = -1; l < p->shape.n_layers; l++) {
        KVR_TRY(put(p, at(l, -1, -1, -1, -1), fn, ctx));
        for (int h = 0; l >= 0 && h < p->shape.n_heads; h++)
            KVR_TRY(put(p, at(l, h, -1, -1, -1), fn, ctx));
        for (int i = 0; i < p->opts.n_passes; i++)
            KVR_TRY(put(p, at(l, -1, i, -1, -1), fn, ctx));
        for (int c = 0; c < p->n_chunks; c++)
            KVR_TRY(put(p, at(l, -1, -1, c, -1), fn, ctx));
        for (int a = 0; a < p->n_chunks; a++)
            KVR_TRY(put(p, at(l, -1, -1, -1, a), fn, ctx));
    }
    return KVR_OK;
}

static enum kvr_status put_delta(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx)
{
    for (int l = 0; l < p->shape.n_layers; l++)
        for (int h = 0; h < p->shape.n_heads; h++)
            for (int i = 0; i < p->opts.n_passes; i++)
                for (int c = 0; c < p->n_chunks; c++) {
                    const struct kvr_probe_sums *s = kvr_probe_call(p, l, h, i, c);
                    const struct kvr_probe_row where = at(l, h, i, c, -1);

                    if (s->queries > 0)
                        KVR_TRY(emit(s, &where, 0, fn, ctx));
                }
    return KVR_OK;
}

/* --- channels --------------------------------------------------------------------------- */

static int64_t channel_tokens(const struct kvr_probe *p, int layer)
{
    double n = 0;

    for (int l = first(layer); l < last(layer, p->shape.n_layers); l++)
        n += p->channel_tokens[l];
    return (int64_t)n;
}

static double worst_channel(const struct kvr_probe *p, int layer, int head, int side)
{
    const int heads = p->kv_heads, d = p->shape.head_dim;
    double worst = 0;

    for (int l = first(layer); l < last(layer, p->shape.n_layers); l++)
        for (int h = first(head) / p->group; h < (head < 0 ? heads : head / p->group + 1); h++)
            for (int c = 0; c < d; c++) {
                const double e = p->channel[((int64_t)(l * 2 + side) * heads + h) * d + c] /
                                 p->channel_tokens[l];

                if (!(e <= worst))
                    worst = e;
            }
    return worst;
}

static enum kvr_status put_channels(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx)
{
    static const char *const names[] = { "k_mse_channel_max", "v_mse_channel_max" };

    for (int l = -1; l < p->shape.n_layers; l++)
        for (int h = -1; h < (l < 0 ? 0 : p->shape.n_heads); h++)
            for (int side = 0; side < 2; side++) {
                struct kvr_probe_row row = at(l, h, -1, -1, -1);

                row.name = names[side];
                row.n = channel_tokens(p, l);
                if (row.n == 0)
                    continue;
                row.value = worst_channel(p, l, h, side);
                KVR_TRY(fn(ctx, &row));
            }
    return KVR_OK;
}

/* --- codings ---------------------------------------------------------------------------- */

static enum kvr_status emit_counts(const struct kvr_probe_counts *s,
                                   const struct kvr_probe_row *where, kvr_probe_row_fn *fn,
                                   void *ctx)
{
    struct kvr_probe_row row = *where;

    if (!(s->tokens > 0))
        return KVR_OK;
    row.n = (int64_t)s->tokens;
    row.name = "recodes";
    row.value = s->recodes / s->tokens;
    KVR_TRY(fn(ctx, &row));
    row.name = "value_changes";
    row.value = s->changes / s->tokens;
    return fn(ctx, &row);
}

/* Sums over the tokens of a layer how often each was encoded again (recodes) and how often its
 * decoded K or V changed; layer -1: all layers. */
static struct kvr_probe_counts final_counts(const struct kvr_probe *p, int layer)
{
    const int64_t capacity = (int64_t)p->shape.capacity_frames * p->shape.tokens_per_frame;
    struct kvr_probe_counts s = { 0 };

    for (int l = first(layer); l < last(layer, p->shape.n_layers); l++)
        for (int64_t t = 0; t < capacity; t++) {
            const struct kvr_probe_token *tok = &p->token[l * capacity + t];

            if (!tok->seen)
                continue;
            s.tokens += 1;
            s.recodes += tok->recodes;
            s.changes += tok->changes;
        }
    return s;
}

static enum kvr_status put_codings(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx)
{
    for (int l = -1; l < p->shape.n_layers; l++) {
        const struct kvr_probe_row where = at(l, -1, -1, -1, -1);
        const struct kvr_probe_counts s = final_counts(p, l);

        KVR_TRY(emit_counts(&s, &where, fn, ctx));
        for (int a = 0; a < p->n_chunks; a++) {
            const struct kvr_probe_row aged = at(l, -1, -1, -1, a);
            struct kvr_probe_counts sum = { 0 };

            for (int k = first(l); k < last(l, p->shape.n_layers); k++) {
                const struct kvr_probe_counts *one = &p->counts[k * p->n_chunks + a];

                sum.tokens += one->tokens;
                sum.recodes += one->recodes;
                sum.changes += one->changes;
            }
            KVR_TRY(emit_counts(&sum, &aged, fn, ctx));
        }
    }
    return KVR_OK;
}

enum kvr_status kvr_probe_rows(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx)
{
    KVR_TRY(put_margins(p, fn, ctx));
    KVR_TRY(put_delta(p, fn, ctx));
    KVR_TRY(put_channels(p, fn, ctx));
    return put_codings(p, fn, ctx);
}
