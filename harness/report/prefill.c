/* prefill.c - see prefill.h. */
#include "harness/report/prefill.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/stats/nested.h"
#include "harness/report/table/values.h"
#include "harness/store/statement.h"

KVR_STATEMENT(table_prefill);

/* Columns of table_prefill.sql, from the left. */
enum { SETTINGS, CHUNK, PREFIX, METHOD, CARRIER, CORRECTION, BASELINE, PLACE, SEED, VALUES };
enum { BF16_BYTES = VALUES + KVR_PREFILL_N, NOMINAL_BYTES, TOKENS };

/* --- runs ------------------------------------------------------------------------------- */

static bool same_run(const struct kvr_table *t, int a, int b)
{
    return kvr_table_number(t, a, CHUNK) == kvr_table_number(t, b, CHUNK) &&
           strcmp(kvr_table_text(t, a, PREFIX), kvr_table_text(t, b, PREFIX)) == 0 &&
           strcmp(kvr_table_text(t, a, METHOD), kvr_table_text(t, b, METHOD)) == 0 &&
           strcmp(kvr_table_text(t, a, SETTINGS), kvr_table_text(t, b, SETTINGS)) == 0;
}

static struct kvr_prefill_run describe(const struct kvr_table *t, int from, int to)
{
    const double prefix = kvr_table_number(t, from, PREFIX);
    struct kvr_prefill_run r = {
        .settings = kvr_table_text(t, from, SETTINGS),
        .method = kvr_table_text(t, from, METHOD),
        .carrier = kvr_table_text(t, from, CARRIER),
        .correction = kvr_table_text(t, from, CORRECTION),
        .chunk = (int)kvr_table_number(t, from, CHUNK),
        .prefix = isfinite(prefix) ? (int)prefix : 0,
        .baseline = kvr_table_number(t, from, BASELINE) == 1.0,
        .from = from,
        .to = to,
    };
    double bf16 = 0, nominal = 0;

    for (int i = from; i < to; i++) {
        bf16 += kvr_table_number(t, i, BF16_BYTES);
        nominal += kvr_table_number(t, i, NOMINAL_BYTES);
        r.n_texts +=
            i == from || kvr_table_number(t, i, PLACE) != kvr_table_number(t, i - 1, PLACE);
    }
    r.bits = 16 * nominal / bf16;
    return r;
}

enum kvr_status kvr_prefill_read(struct kvr_prefill *out, const char *db_path)
{
    *out = (struct kvr_prefill){ 0 };
    KVR_TRY(kvr_table_query(&out->table, db_path, kvr_statement_table_prefill, NULL));
    out->run = calloc((size_t)out->table->n_rows + 1, sizeof *out->run);
    if (!out->run) {
        kvr_prefill_free(out);
        return kvr_fail(KVR_ENOMEM, "prefill: out of memory");
    }
    for (int from = 0, to; from < out->table->n_rows; from = to) {
        for (to = from + 1; to < out->table->n_rows && same_run(out->table, from, to); to++)
            ;
        out->run[out->n++] = describe(out->table, from, to);
    }
    return KVR_OK;
}

void kvr_prefill_free(struct kvr_prefill *p)
{
    kvr_table_close(&p->table);
    free(p->run);
    *p = (struct kvr_prefill){ 0 };
}

bool kvr_prefill_same_condition(const struct kvr_prefill_run *a, const struct kvr_prefill_run *b)
{
    assert(a->settings && b->settings); /* set by describe() */
    return a->chunk == b->chunk && a->prefix == b->prefix && strcmp(a->settings, b->settings) == 0;
}

const struct kvr_prefill_run *kvr_prefill_find(const struct kvr_prefill *p,
                                               const struct kvr_prefill_run *at, const char *method)
{
    for (int i = 0; i < p->n; i++)
        if (kvr_prefill_same_condition(&p->run[i], at) && strcmp(p->run[i].method, method) == 0)
            return &p->run[i];
    return NULL;
}

const struct kvr_prefill_run *kvr_prefill_baseline(const struct kvr_prefill *p,
                                                   const struct kvr_prefill_run *at)
{
    for (int i = 0; i < p->n; i++)
        if (kvr_prefill_same_condition(&p->run[i], at) && p->run[i].baseline)
            return &p->run[i];
    return NULL;
}

const struct kvr_prefill_run *kvr_prefill_carrier(const struct kvr_prefill *p,
                                                  const struct kvr_prefill_run *at)
{
    assert(at->method && at->carrier); /* set by describe() */
    return strcmp(at->method, at->carrier) == 0 ? NULL : kvr_prefill_find(p, at, at->carrier);
}

/* --- numbers ---------------------------------------------------------------------------- */

double kvr_prefill_mean(const struct kvr_prefill *p, const struct kvr_prefill_run *run,
                        enum kvr_prefill_value value)
{
    double sum = 0, tokens = 0;

    for (int i = run->from; i < run->to; i++) {
        const double n = kvr_table_number(p->table, i, TOKENS);

        sum += n * kvr_table_number(p->table, i, VALUES + (int)value);
        tokens += n;
    }
    return sum / tokens;
}

static int samples(const struct kvr_prefill *p, const struct kvr_prefill_run *run,
                   enum kvr_prefill_value value, struct kvr_sample *s)
{
    for (int i = run->from; i < run->to; i++)
        s[i - run->from] = (struct kvr_sample){
            .prompt = (int)kvr_table_number(p->table, i, PLACE),
            .seed = (int)kvr_table_number(p->table, i, SEED),
            .x = kvr_table_number(p->table, i, VALUES + (int)value),
        };
    return kvr_nest(s, run->to - run->from, KVR_PER_SEED);
}

enum kvr_status kvr_prefill_compare(const struct kvr_prefill *p, const struct kvr_prefill_run *a,
                                    const struct kvr_prefill_run *b, enum kvr_prefill_value value,
                                    struct kvr_comparison *out)
{
    const size_t n_a = (size_t)(a->to - a->from), n_b = b ? (size_t)(b->to - b->from) : 0;
    struct kvr_sample *s = calloc(2 * n_a + n_b, sizeof *s), *d = s + n_a, *t = d + n_a;
    double *x = calloc(n_a, sizeof *x);
    enum kvr_status st = s && x ? KVR_OK : kvr_fail(KVR_ENOMEM, "prefill: out of memory");

    if (st == KVR_OK) {
        int n = samples(p, a, value, s);

        if (b)
            n = kvr_nest_pairs(s, n, t, samples(p, b, value, t), d);
        n = kvr_nest(b ? d : s, n, KVR_PER_PROMPT);
        kvr_nest_values(b ? d : s, n, x);
        st = kvr_compare(x, n, 0.95, out);
    }
    free(s);
    free(x);
    return st;
}

/* --- the table -------------------------------------------------------------------------- */

static const struct kvr_column columns[] = {
    { .name = "chunk" },
    { .name = "prefix_tokens", .head = "prefix" },
    { .name = "method" },
    { .name = "bits", .digits = 2 },
    { .name = "nll", .head = "NLL", .unit = "(nat)", .digits = 3 },
    { .name = "d_nll", .head = "above BF16", .digits = 3 },
    { .name = "d_nll_lo", .head = "from", .digits = 3 },
    { .name = "d_nll_hi", .head = "to", .digits = 3 },
    { .name = "gain", .head = "by the correction", .digits = 3 },
    { .name = "gain_lo", .head = "from", .digits = 3 },
    { .name = "gain_hi", .head = "to", .digits = 3 },
    { .name = "verdict" },
    { .name = "kl", .head = "KL", .unit = "(nat)", .digits = 3 },
    { .name = "top1", .head = "top-1", .digits = 3 },
    { .name = "mass", .head = "mass on the prefix", .digits = 3 },
    { .name = "mass_shift", .head = "shift", .digits = 3 },
    { .name = "mass_shift_lo", .head = "from", .digits = 3 },
    { .name = "mass_shift_hi", .head = "to", .digits = 3 },
    { .name = "n" },
    { .name = "settings" },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static struct kvr_value count(int n)
{
    return n ? kvr_value_count(n) : kvr_value_none();
}

static void put(struct kvr_value to[3], const struct kvr_comparison *c)
{
    to[0] = kvr_value_number(c->n ? c->mean : NAN);
    to[1] = kvr_value_number(c->n > 1 ? c->ci.lo : NAN);
    to[2] = kvr_value_number(c->n > 1 ? c->ci.hi : NAN);
}

static const char *verdict(const struct kvr_comparison *c, double holm, int tests, char *buf,
                           size_t size)
{
    const int missing = kvr_pairs_needed(tests, 0.95) - c->n;

    if (c->n == 0)
        return "";
    if (kvr_separable(c, holm))
        return c->mean < 0 ? "better" : "worse";
    snprintf(buf, size, "needs %d more texts", missing);
    return missing > 0 ? buf : "not separable";
}

static enum kvr_status add_run(struct kvr_table *out, const struct kvr_prefill *p,
                               const struct kvr_prefill_run *r, const struct kvr_comparison *gain,
                               double holm, int tests)
{
    const struct kvr_prefill_run *bf16 = kvr_prefill_baseline(p, r);
    struct kvr_comparison above = { 0 }, shift = { 0 };
    struct kvr_value v[N_COLUMNS];
    char buf[48];

    if (bf16 && !r->baseline) {
        KVR_TRY(kvr_prefill_compare(p, r, bf16, KVR_PREFILL_NLL, &above));
        KVR_TRY(kvr_prefill_compare(p, r, bf16, KVR_PREFILL_MASS, &shift));
    }
    v[0] = count(r->chunk);
    v[1] = count(r->prefix);
    v[2] = kvr_value_text_or_none(r->method);
    v[3] = kvr_value_number(r->bits);
    v[4] = kvr_value_number(kvr_prefill_mean(p, r, KVR_PREFILL_NLL));
    put(&v[5], &above);
    put(&v[8], gain);
    v[11] = kvr_value_text_or_none(verdict(gain, holm, tests, buf, sizeof buf));
    v[12] = kvr_value_number(kvr_prefill_mean(p, r, KVR_PREFILL_KL));
    v[13] = kvr_value_number(kvr_prefill_mean(p, r, KVR_PREFILL_TOP1));
    v[14] = kvr_value_number(kvr_prefill_mean(p, r, KVR_PREFILL_MASS));
    put(&v[15], &shift);
    v[18] = count(r->n_texts);
    v[19] = kvr_value_text_or_none(r->settings);
    return kvr_table_add(out, v);
}

/* Adds the rows of runs [from, to), which have the same settings, chunk length and prefix length.
 * The p-values are Holm-adjusted over these runs. */
static enum kvr_status add_place(struct kvr_table *out, const struct kvr_prefill *p, int from,
                                 int to)
{
    const size_t n = (size_t)(to - from);
    struct kvr_comparison *gain = calloc(n, sizeof *gain);
    double *sure = calloc(2 * n, sizeof *sure);
    enum kvr_status st = gain && sure ? KVR_OK : kvr_fail(KVR_ENOMEM, "prefill: out of memory");
    int tests = 0;

    for (size_t i = 0; st == KVR_OK && i < n; i++) {
        const struct kvr_prefill_run *r = &p->run[from + (int)i],
                                     *carrier = kvr_prefill_carrier(p, r);

        if (carrier)
            st = kvr_prefill_compare(p, r, carrier, KVR_PREFILL_NLL, &gain[i]);
        sure[i] = gain[i].n ? gain[i].p : NAN;
        tests += gain[i].n > 0;
    }
    if (st == KVR_OK)
        st = kvr_holm(sure, (int)n, sure + n);
    for (size_t i = 0; st == KVR_OK && i < n; i++)
        st = add_run(out, p, &p->run[from + (int)i], &gain[i], sure[n + i], tests);
    free(gain);
    free(sure);
    return st;
}

enum kvr_status kvr_report_prefill(struct kvr_table **out, const char *db_path)
{
    struct kvr_prefill p;
    enum kvr_status st;

    KVR_TRY(kvr_prefill_read(&p, db_path));
    st = kvr_table_open(out, N_COLUMNS, columns);
    for (int from = 0, to; st == KVR_OK && from < p.n; from = to) {
        for (to = from + 1; to < p.n && kvr_prefill_same_condition(&p.run[from], &p.run[to]); to++)
            ;
        st = add_place(*out, &p, from, to);
    }
    if (st == KVR_OK)
        st = kvr_table_note(
            *out, "prefix `-`: mean over all prefix lengths; from, to: 95 % interval of a paired "
                  "difference over texts; by the correction: NLL minus the NLL of the same method "
                  "without its correction (verdict: Holm-adjusted over the corrected methods of a "
                  "prefix length); mass on the prefix: share of attention on the prefix; shift: "
                  "mass on the prefix minus BF16's; top-1: share of tokens whose most probable "
                  "prediction equals BF16's");
    kvr_prefill_free(&p);
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
