/* derived.c - see derived.h. */
#include "metrics/derived.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/frames.h"

struct source {
    const struct kvr_metric *m;
    const struct kvr_metric_input *in;
    const struct kvr_metric_value *v;
};

static enum kvr_status no_memory(const struct source *s)
{
    return kvr_fail(KVR_ENOMEM,
                    "%s: out of memory while allocating values of frames, chunks or prefixes",
                    s->m->name);
}

static void name_it(struct kvr_derived *d, const struct source *s, const char *suffix)
{
    snprintf(d->name, sizeof d->name, "%s.%s", s->m->name, suffix);
    d->value = d->extra = NAN;
}

/* Returns the first chunk with a frame that differs from the reference. Chunk 0 is skipped, because
 * it does not read the KV cache. */
static int first_different_chunk(const struct kvr_metric_input *in, int n_chunks)
{
    for (int c = 1; c < n_chunks; c++)
        for (int i = kvr_chunk_begin(in, c); i < kvr_chunk_begin(in, c + 1); i++)
            if (memcmp(kvr_frame_at(in->ref, i), kvr_frame_at(in->test, i),
                       kvr_frame_bytes(in->test)) != 0)
                return c;
    return n_chunks > 1 ? 1 : 0;
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

static enum kvr_status drift(struct kvr_derived *d, const struct source *s)
{
    const int n = s->v->n_series, n_chunks = kvr_chunk_count(s->in), last = n_chunks - 1;
    int first;

    name_it(d, s, "drift");
    if (n_chunks <= 0) {
        snprintf(
            d->missing, sizeof d->missing,
            "the number of frames per chunk is unknown; set it with --chunk of kvreel compare");
        return KVR_OK;
    }
    d->series = malloc((size_t)n_chunks * sizeof *d->series);
    if (!d->series)
        return no_memory(s);
    d->n_series = n_chunks;
    for (int c = 0; c < n_chunks; c++)
        d->series[c] = kvr_metric_pool(s->m, s->v->series, min(kvr_chunk_begin(s->in, c), n),
                                       min(kvr_chunk_begin(s->in, c + 1), n));
    first = s->m->truth ? 0 : first_different_chunk(s->in, n_chunks);
    d->n = s->in->test->n - kvr_chunk_begin(s->in, last);
    d->extra = first;
    if (last <= first)
        snprintf(d->missing, sizeof d->missing,
                 "drift compares two chunks, but only chunk %d of the video can differ from the "
                 "reference",
                 last);
    else if (isnan(d->series[first]) || isnan(d->series[last]))
        snprintf(d->missing, sizeof d->missing,
                 "the metric has no value in chunk %d; drift needs its values in chunks %d and %d",
                 isnan(d->series[first]) ? first : last, first, last);
    else
        d->value = d->series[last] - d->series[first];
    return KVR_OK;
}

static enum kvr_status prefix(struct kvr_derived *d, const struct source *s, int step)
{
    const int n = s->v->n_series, n_prefixes = n / step;

    name_it(d, s, "prefix");
    if (n_prefixes == 0) {
        snprintf(d->missing, sizeof d->missing,
                 "the video has %d frames, need at least %d for the shortest prefix", n, step);
        return KVR_OK;
    }
    d->series = malloc((size_t)n_prefixes * sizeof *d->series);
    if (!d->series)
        return no_memory(s);
    d->n_series = n_prefixes;
    for (int i = 0; i < n_prefixes; i++)
        d->series[i] = kvr_metric_pool(s->m, s->v->series, 0, (i + 1) * step);
    d->n = n_prefixes * step;
    d->extra = d->n;
    d->value = d->series[n_prefixes - 1];
    if (isnan(d->value))
        snprintf(d->missing, sizeof d->missing,
                 "the metric has no value in any of the %d frames of the longest prefix", d->n);
    return KVR_OK;
}

/* Computes the metric over the last third of the video. The last third begins at the first chunk
 * border at or after two thirds of the frames. */
static void last_third(struct kvr_derived *d, const struct source *s)
{
    const int n = s->v->n_series, n_chunks = kvr_chunk_count(s->in);
    int from = n - n / 3;

    for (int c = 0; c < n_chunks; c++)
        if (kvr_chunk_begin(s->in, c) >= n - n / 3) {
            from = kvr_chunk_begin(s->in, c);
            break;
        }
    name_it(d, s, "last");
    d->extra = from;
    d->n = n - from;
    if (n / 3 == 0 || from >= n)
        snprintf(d->missing, sizeof d->missing,
                 "the metric has values for %d frames, too few for a last third that begins at a "
                 "chunk border",
                 n);
    else
        d->value = kvr_metric_pool(s->m, s->v->series, from, n);
    if (!d->missing[0] && isnan(d->value))
        snprintf(d->missing, sizeof d->missing,
                 "the metric has no value in frames %d..%d, the video's last third", from, n - 1);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Computes the 5th percentile of the metric over frames, by nearest rank: the smallest of the
 * values v such that at least 5 % of the frames have values <= v. If low values of the metric are
 * good, computes the 95th percentile instead. */
static enum kvr_status fifth_percentile(struct kvr_derived *d, const struct source *s)
{
    const int n = s->v->n_series - s->v->first, rank = (n * 5 + 99) / 100;
    double *sorted = malloc((size_t)n * sizeof *sorted);

    if (!sorted)
        return no_memory(s);
    name_it(d, s, "p5");
    memcpy(sorted, s->v->series + s->v->first, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    d->n = n;
    d->value = s->m->direction > 0 ? sorted[rank - 1] : sorted[n - rank];
    d->extra = s->m->direction > 0 ? sorted[0] : sorted[n - 1];
    free(sorted);
    return KVR_OK;
}

static void derive_worst(struct kvr_derived *d, const struct source *s)
{
    const int better = s->m->direction > 0 ? 1 : -1;
    int at = s->v->first;

    for (int i = at + 1; i < s->v->n_series; i++)
        if ((s->v->series[i] - s->v->series[at]) * better < 0)
            at = i;
    name_it(d, s, better > 0 ? "min" : "max");
    d->n = s->v->n_series - s->v->first;
    d->value = s->v->series[at];
    d->extra = at;
}

static void mean(struct kvr_derived *d, const struct source *s)
{
    name_it(d, s, "mean");
    d->n = s->v->n_series - s->v->first;
    d->value = 0.0;
    for (int i = s->v->first; i < s->v->n_series; i++)
        d->value += s->v->series[i] / d->n;
}

/* Computes the harmonic mean of 1 + x, minus 1, as VMAF does. Without the shift, a single frame of
 * value 0 would make the mean 0. */
static void harmonic(struct kvr_derived *d, const struct source *s)
{
    double sum = 0.0;

    name_it(d, s, "harmonic");
    d->n = s->v->n_series - s->v->first;
    for (int i = s->v->first; i < s->v->n_series; i++) {
        if (!(s->v->series[i] > -1.0)) {
            snprintf(d->missing, sizeof d->missing,
                     "no harmonic mean: the value of frame %d is %g, need more than -1", i,
                     s->v->series[i]);
            return;
        }
        sum += 1.0 / (1.0 + s->v->series[i]);
    }
    d->value = d->n / sum - 1.0;
}

enum kvr_status kvr_metric_derive(const struct kvr_metric *m, const struct kvr_metric_input *in,
                                  const struct kvr_metric_value *v, int prefix_step,
                                  struct kvr_derived d[KVR_N_DERIVED])
{
    const struct source s = { m, in, v };
    enum kvr_status st;

    memset(d, 0, KVR_N_DERIVED * sizeof *d);
    if (v->missing[0] || v->n_series <= v->first)
        return KVR_OK;
    st = drift(&d[KVR_DRIFT], &s);
    if (st == KVR_OK && !m->whole)
        st = prefix(&d[KVR_PREFIX], &s, prefix_step);
    if (st == KVR_OK && !m->whole)
        last_third(&d[KVR_LAST], &s);
    if (st == KVR_OK && !m->whole && m->pool != KVR_POOL_SUM)
        st = fifth_percentile(&d[KVR_P5], &s);
    if (st == KVR_OK && !m->whole && m->pool != KVR_POOL_SUM)
        derive_worst(&d[KVR_WORST], &s);
    if (st == KVR_OK && m->pool == KVR_POOL_DB)
        mean(&d[KVR_MEAN], &s);
    if (st == KVR_OK && !m->whole && m->pool != KVR_POOL_SUM && m->direction > 0)
        harmonic(&d[KVR_HARMONIC], &s);
    if (st != KVR_OK)
        kvr_derived_free(d);
    return st;
}

void kvr_derived_free(struct kvr_derived d[KVR_N_DERIVED])
{
    for (int i = 0; i < KVR_N_DERIVED; i++)
        free(d[i].series);
    memset(d, 0, KVR_N_DERIVED * sizeof *d);
}
