/* claims_read.c - reads a ledger (YAML file of claims). */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/predict.h"
#include "harness/plan/find.h"
#include "harness/report/claims/claims.h"

static const struct kvr_find ledger = { "ledger", "results", ".yaml", NULL };

static enum kvr_status number_of(const struct kvr_yaml_node *map, const char *key, double other,
                                 double *out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);
    const char *text;
    char *end;

    *out = other;
    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_yaml_string(n, &text));
    *out = strtod(text, &end);
    return *end || end == text || !isfinite(*out)
               ? kvr_yaml_fail(n, "%s: need a finite number, got '%s'", key, text)
               : KVR_OK;
}

static enum kvr_status text_of(const struct kvr_yaml_node *map, const char *key, const char *other,
                               const char **out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);

    *out = other;
    if (!n && !other)
        return kvr_yaml_fail(map, "the key '%s' is missing", key);
    return n ? kvr_yaml_string(n, out) : KVR_OK;
}

/* --- margins and methods ---------------------------------------------------------------- */

/* Equivalence margins of metrics for which the ledger (YAML file of claims) has none. */
static const struct {
    const char *metric;
    double margin;
} usual[] = { { "ssim", 0.005 }, { "ssim_gauss", 0.005 }, { "psnr", 0.25 } };

double kvr_default_margin(const char *metric)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].metric, metric) == 0)
            return usual[i].margin;
    return 0;
}

double kvr_ledger_margin(const struct kvr_ledger *l, const char *metric)
{
    const struct kvr_yaml_node *n = l->margins ? kvr_yaml_get(l->margins, metric) : NULL;

    /* read_margins() has checked that the margin is a number */
    return n ? strtod(n->text, NULL) : kvr_default_margin(metric);
}

static enum kvr_status read_margins(const struct kvr_yaml_node *map)
{
    if (map && map->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(map, "margins: need a map from metric names to numbers, found %s",
                             kvr_yaml_kind_name(map));
    for (int i = 0; map && i < map->n; i++) {
        double x;

        KVR_TRY(number_of(map, map->key[i]->text, 0, &x));
        if (!(x >= 0))
            return kvr_yaml_fail(map->item[i], "margin of metric %s: %g, must be 0 or more",
                                 map->key[i]->text, x);
    }
    return KVR_OK;
}

/* Checks that `map` is NULL, or that it is a map whose values are scalars. */
static enum kvr_status check_texts(const struct kvr_yaml_node *map, const char *key)
{
    const char *text;

    if (map && map->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(map, "%s: need a map from names to values, found %s", key,
                             kvr_yaml_kind_name(map));
    for (int i = 0; map && i < map->n; i++)
        KVR_TRY(kvr_yaml_string(map->item[i], &text));
    return KVR_OK;
}

static enum kvr_status read_methods(const struct kvr_yaml_node *map)
{
    static const char *const keys[] = { "method", "options", NULL };
    const char *text;

    if (map && map->kind != KVR_YAML_MAP)
        return kvr_yaml_fail(map, "methods: need a map from labels to {method, options}, found %s",
                             kvr_yaml_kind_name(map));
    for (int i = 0; map && i < map->n; i++) {
        KVR_TRY(kvr_yaml_keys(map->item[i], keys));
        KVR_TRY(text_of(map->item[i], "method", NULL, &text));
        KVR_TRY(check_texts(kvr_yaml_get(map->item[i], "options"), "options"));
    }
    return KVR_OK;
}

const struct kvr_yaml_node *kvr_ledger_method(const struct kvr_ledger *l, const char *label)
{
    return l->methods ? kvr_yaml_get(l->methods, label) : NULL;
}

/* --- one claim -------------------------------------------------------------------------- */

static enum kvr_status margin_of(const struct kvr_ledger *l, struct kvr_claim *c,
                                 const struct kvr_yaml_node *n)
{
    KVR_TRY(number_of(n, "margin", kvr_ledger_margin(l, c->metric), &c->fixed));
    return c->fixed >= 0 ? KVR_OK
                         : kvr_yaml_fail(kvr_yaml_get(n, "margin"), "margin: %g, must be 0 or more",
                                         c->fixed);
}

static enum kvr_status read_pair(const struct kvr_ledger *l, struct kvr_claim *c,
                                 const struct kvr_yaml_node *n)
{
    static const char *const keys[] = { "metric",  "of",    "than",  "by",     "kind", "within",
                                        "forcing", "suite", "model", "margin", NULL };
    const bool alike = c->relation == KVR_CLAIM_ALIKE;

    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "metric", NULL, &c->metric));
    KVR_TRY(text_of(n, "of", NULL, &c->of));
    KVR_TRY(text_of(n, "than", "", &c->than));
    KVR_TRY(text_of(n, "kind", "bench", &c->kind));
    KVR_TRY(text_of(n, "forcing", "none", &c->forcing));
    KVR_TRY(text_of(n, "suite", "", &c->suite));
    KVR_TRY(text_of(n, "model", "", &c->model));
    KVR_TRY(number_of(n, "by", 0, &c->by));
    KVR_TRY(margin_of(l, c, n));
    c->needs[0] = c->of;
    if (c->than[0])
        c->needs[1] = c->than;
    if (alike) {
        KVR_TRY(number_of(n, "within", NAN, &c->within));
        if (!(c->within > 0))
            return kvr_yaml_fail(n, "the claim needs 'within', a number above 0");
        snprintf(c->shown, sizeof c->shown, "%.60s of %.60s within %g of %.60s", c->metric, c->of,
                 c->within, c->than);
    } else {
        char by[48];

        snprintf(by, sizeof by, "%g", c->by);
        snprintf(c->shown, sizeof c->shown, "%.60s of %.60s %s %.60s%s%s", c->metric, c->of,
                 c->relation == KVR_CLAIM_MORE ? "above" : "below", c->than[0] ? c->than : by,
                 c->than[0] && c->by > 0 ? " by more than " : "",
                 c->than[0] && c->by > 0 ? by : "");
    }
    if (c->model[0])
        snprintf(c->shown + strlen(c->shown), sizeof c->shown - strlen(c->shown), ", %.60s",
                 c->model);
    if (c->suite[0])
        snprintf(c->shown + strlen(c->shown), sizeof c->shown - strlen(c->shown), ", %.60s",
                 c->suite);
    return KVR_OK;
}

static enum kvr_status read_sql(const struct kvr_ledger *l, struct kvr_claim *c,
                                const struct kvr_yaml_node *n)
{
    const struct kvr_yaml_node *needs = kvr_yaml_get(n, "needs");

    KVR_TRY(text_of(n, "sql", NULL, &c->sql));
    KVR_TRY(text_of(n, "metric", "", &c->metric));
    KVR_TRY(text_of(n, "kind", "bench", &c->kind));
    KVR_TRY(text_of(n, "forcing", "none", &c->forcing));
    KVR_TRY(margin_of(l, c, n));
    for (int i = 0; needs && i < kvr_yaml_count(needs); i++) {
        if (i == KVR_CLAIM_NEEDS)
            return kvr_yaml_fail(needs, "needs: %d methods are listed, at most %d are allowed",
                                 kvr_yaml_count(needs), KVR_CLAIM_NEEDS);
        KVR_TRY(kvr_yaml_string(kvr_yaml_at(needs, i), &c->needs[i]));
    }
    return KVR_OK;
}

/* Opens the method of the map `n` with its options, a map of scalars or NULL. */
static enum kvr_status open_scheme(const struct kvr_yaml_node *n, const char *method,
                                   struct kvr_scheme **out)
{
    const struct kvr_yaml_node *options = kvr_yaml_get(n, "options");
    const int n_set = options ? options->n : 0;
    struct kvr_setting *set;
    enum kvr_status st;

    KVR_TRY(check_texts(options, "options"));
    set = calloc((size_t)n_set + 1, sizeof *set);
    if (!set)
        return kvr_fail(KVR_ENOMEM, "claims: out of memory");
    for (int i = 0; i < n_set; i++)
        set[i] = (struct kvr_setting){ options->key[i]->text, options->item[i]->text };
    st = kvr_scheme_open(out, method, set, n_set);
    free(set);
    return st == KVR_OK || st == KVR_ENOMEM ? st : kvr_yaml_fail(n, "%s", kvr_error());
}

/* Compares a published compression ratio (key `is`) with the computed ratio, rounded to the
 * published number of decimals. If the encoded size depends on the cached values, the published
 * ratio must be between the smallest and the largest computed ratio. */
static enum kvr_status read_ratio(struct kvr_claim *c, const struct kvr_yaml_node *n)
{
    enum { LATENT_FRAMES = 42 };
    static const char *const keys[] = { "method", "options", "is", NULL };
    struct kvr_scheme *scheme = NULL;
    struct kvr_prediction p;
    const char *method, *text, *point;
    double is, rounding;
    enum kvr_status st;

    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "method", NULL, &method));
    KVR_TRY(text_of(n, "is", NULL, &text));
    KVR_TRY(number_of(n, "is", NAN, &is));
    point = strchr(text, '.');
    rounding = 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0) * (1 + 1e-9);
    snprintf(c->shown, sizeof c->shown, "%s: computed cache compression on wan-1.3b, 165 frames",
             method);
    KVR_TRY(open_scheme(n, method, &scheme));
    st = kvr_predict(scheme, &kvr_wan_1_3b,
                     &(struct kvr_predict_run){ .latent_frames = LATENT_FRAMES }, &p);
    kvr_scheme_close(&scheme);
    KVR_TRY(st);
    c->arithmetic = true;
    c->figure = (double)p.bf16 / (double)p.nominal;
    c->lo = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_max : p.nominal);
    c->hi = (double)p.bf16 / (double)(p.data_dependent ? p.nominal_min : p.nominal);
    c->verdict = is >= c->lo - rounding && is <= c->hi + rounding ? KVR_CLAIM_HOLDS : KVR_CLAIM_NOT;
    snprintf(c->why, sizeof c->why, "arithmetic without a rollout%s",
             p.data_dependent ? ", with a range, because the encoded size depends on the data"
                              : "");
    return KVR_OK;
}

static enum kvr_status read_command(struct kvr_claim *c, const struct kvr_yaml_node *n)
{
    const char *text, *why;

    KVR_TRY(text_of(n, "command", NULL, &text));
    KVR_TRY(text_of(n, "why", NULL, &why));
    snprintf(c->why, sizeof c->why, "%s; settled by: %s", why, text);
    return KVR_OK;
}

static enum kvr_status read_card(struct kvr_claim *c, const struct kvr_yaml_node *n)
{
    static const char *const keys[] = { "of", "than", "on", "above", "below", NULL };
    double below;

    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "of", NULL, &c->card.of));
    KVR_TRY(text_of(n, "than", "", &c->card.than));
    KVR_TRY(text_of(n, "on", "", &c->card.on));
    if (!*c->card.than == !*c->card.on)
        return kvr_yaml_fail(n,
                             "card (test on a GPU): need exactly one of 'than' (second row: the "
                             "value of row 'of' is divided by its value) and 'on' (a GPU's name)");
    KVR_TRY(number_of(n, "above", NAN, &c->card.bound));
    KVR_TRY(number_of(n, "below", NAN, &below));
    c->card.above = !isnan(c->card.bound);
    if (c->card.above == !isnan(below))
        return kvr_yaml_fail(n,
                             "card (test on a GPU): need a number for either 'above' or 'below', "
                             "got %s",
                             c->card.above ? "both" : "neither");
    if (!c->card.above)
        c->card.bound = below;
    return KVR_OK;
}

static enum kvr_status read_claim(struct kvr_ledger *l, struct kvr_claim *c,
                                  const struct kvr_yaml_node *n)
{
    static const char *const keys[] = { "id",   "says",     "source",    "at",     "more",
                                        "less", "alike",    "sql",       "ratio",  "command",
                                        "why",  "shown_by", "margin",    "metric", "needs",
                                        "kind", "forcing",  "published", "card",   NULL };
    static const char *const relations[] = { "more", "less", "alike", "sql", "ratio", "command" };
    const struct kvr_yaml_node *test = NULL;
    const char *text;
    int r = 0;

    c->figure = c->lo = c->hi = c->within = c->n_needed = c->cost_s = NAN;
    c->level_a = c->level_b = NAN;
    c->verdict = KVR_CLAIM_OPEN;
    c->metric = c->of = c->than = c->suite = c->model = c->sql = "";
    c->kind = "bench";
    c->forcing = "none";
    KVR_TRY(kvr_yaml_keys(n, keys));
    KVR_TRY(text_of(n, "id", NULL, &c->id));
    KVR_TRY(text_of(n, "says", NULL, &c->says));
    KVR_TRY(text_of(n, "at", NULL, &c->at));
    KVR_TRY(text_of(n, "source", NULL, &c->source));
    KVR_TRY(number_of(n, "published", NAN, &c->published));
    if (!kvr_yaml_get(l->sources, c->source))
        return kvr_yaml_fail(n, "source '%s' is not listed in 'sources'", c->source);
    for (int i = 0; i < l->n_claims; i++)
        if (strcmp(l->claim[i].id, c->id) == 0)
            return kvr_yaml_fail(n, "two claims have the id '%s'; give one of them another id",
                                 c->id);
    KVR_TRY(read_card(c, kvr_yaml_get(n, "card")));
    KVR_TRY(text_of(n, "shown_by", "", &text));
    snprintf(c->shown, sizeof c->shown, "%s", text);
    while (r < KVR_CLAIM_COMMAND && !(test = kvr_yaml_get(n, relations[r])))
        r++;
    c->relation = (enum kvr_claim_relation)r;
    if (r <= KVR_CLAIM_ALIKE)
        return read_pair(l, c, test);
    if (r == KVR_CLAIM_SQL)
        return read_sql(l, c, n);
    return r == KVR_CLAIM_RATIO ? read_ratio(c, test) : read_command(c, n);
}

static enum kvr_status read_all(struct kvr_ledger *l, const char *path)
{
    static const char *const keys[] = { "sources", "margins", "methods", "settle", "claims", NULL };
    const struct kvr_yaml_node *root = kvr_yaml_root(l->doc), *list;

    if (!root)
        return kvr_fail(KVR_EINVAL, "claims: %s, the YAML file of claims, is empty", path);
    KVR_TRY(kvr_yaml_keys(root, keys));
    l->sources = kvr_yaml_get(root, "sources");
    l->margins = kvr_yaml_get(root, "margins");
    l->methods = kvr_yaml_get(root, "methods");
    l->settle = kvr_yaml_get(root, "settle");
    list = kvr_yaml_get(root, "claims");
    if (!l->sources || l->sources->kind != KVR_YAML_MAP || !list || list->kind != KVR_YAML_LIST)
        return kvr_yaml_fail(
            root, "the file of claims lacks %s; need 'sources' (a map) and 'claims' (a list)",
            !l->sources || l->sources->kind != KVR_YAML_MAP ? "a map 'sources'"
                                                            : "a list 'claims'");
    KVR_TRY(read_margins(l->margins));
    KVR_TRY(read_methods(l->methods));
    l->claim = calloc((size_t)list->n + 1, sizeof *l->claim);
    if (!l->claim)
        return kvr_fail(KVR_ENOMEM, "claims: out of memory");
    for (int i = 0; i < list->n; i++, l->n_claims++)
        KVR_TRY(read_claim(l, &l->claim[i], list->item[i]));
    return KVR_OK;
}

/* Reads GPU measurements from the folder `measured` next to the ledger. */
static enum kvr_status read_measured(struct kvr_ledger *l, const char *path)
{
    const char *slash = strrchr(path, '/');
    char measured[PATH_MAX];

    snprintf(measured, sizeof measured, "%.*smeasured", slash ? (int)(slash + 1 - path) : 0, path);
    for (int i = 0; i < l->n_claims; i++)
        KVR_TRY(kvr_claim_card(&l->claim[i], measured));
    return KVR_OK;
}

void kvr_ledger_free(struct kvr_ledger *l)
{
    free(l->claim);
    kvr_yaml_close(&l->doc);
    *l = (struct kvr_ledger){ 0 };
}

enum kvr_status kvr_ledger_read(struct kvr_ledger *l, const char *path)
{
    char found[PATH_MAX];
    enum kvr_status st;

    *l = (struct kvr_ledger){ .cheapest = -1, .wall_s = NAN };
    if (!path) {
        KVR_TRY(kvr_find_path(&ledger, "claims", NULL, found, sizeof found));
        path = found;
    }
    KVR_TRY(kvr_yaml_read(&l->doc, path));
    st = read_all(l, path);
    if (st == KVR_OK)
        st = read_measured(l, path);
    if (st != KVR_OK)
        kvr_ledger_free(l);
    return st;
}
