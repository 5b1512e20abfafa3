/* key_options.c - see key_options.h. */
#include "harness/plan/key_options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/parts.h"
#include "harness/plan/cell.h"

/* maximum number of options that are tested for an effect; the key has all others */
enum { MOST = 64 };

struct kvr_counts {
    const struct kvr_config_method *method;
    /* value found for the option that has a bit budget; "": no option has one */
    char value[KVR_FIT_TEXT];
    uint64_t which; /* bit i is set if option i is part of the key */
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plan: out of memory while allocating the options of a method");
}

/* Sets *same to whether the method has the parts `parts` if only the options in the bit mask
 * `which` are given. */
static enum kvr_status is_same(const struct kvr_cell *cell, uint64_t which, const json_t *parts,
                               bool *same)
{
    struct kvr_setting *s = calloc((size_t)cell->method->n_settings + 1, sizeof *s);
    struct kvr_scheme *scheme = NULL;
    json_t *now = NULL;
    enum kvr_status st;
    int n = 0;

    *same = false;
    if (!s)
        return no_memory();
    for (int i = 0; i < cell->method->n_settings; i++)
        if (i >= MOST || which >> i & 1)
            s[n++] = kvr_cell_setting(cell, i);
    st = kvr_scheme_open(&scheme, cell->plan, s, n);
    if (st == KVR_OK) {
        now = kvr_parts_json(scheme);
        st = now ? KVR_OK : no_memory();
        *same = json_equal(now, parts);
    }
    json_decref(now);
    kvr_scheme_close(&scheme);
    free(s);
    /* the method needs the removed option, so the parts are not the same */
    return st == KVR_ENOMEM ? st : KVR_OK;
}

/* Removes the options that do not change the method's parts, starting with the last option. For
 * example, it reduces `bits: 2, k.bits: 2` to `bits: 2`, which already sets the bits of K. The loop
 * repeats until no option is removed, because options may depend on each other. */
static enum kvr_status find_out(const struct kvr_cell *cell, const json_t *parts, uint64_t *which)
{
    const int n = cell->method->n_settings < MOST ? cell->method->n_settings : MOST;

    *which = ~(uint64_t)0;
    for (bool again = true; again;) {
        again = false;
        for (int i = n - 1; i >= 0; i--) {
            const uint64_t without = *which & ~((uint64_t)1 << i);
            bool same;

            if (i == cell->fit.at || without == *which)
                continue;
            KVR_TRY(is_same(cell, without, parts, &same));
            if (same) {
                *which = without;
                again = true;
            }
        }
    }
    return KVR_OK;
}

/* Returns whether g->counts has an entry for the cell's method with its fitted option value, and
 * sets g->at to that entry. Successive points of the sweep use the methods in the same order, so
 * the search starts after the entry that was found last. */
static bool is_known(struct kvr_key_options *g, const struct kvr_cell *cell)
{
    for (int i = 1; i <= g->n; i++) {
        const int at = (g->at + i) % g->n;

        if (g->counts[at].method == cell->method &&
            strcmp(g->counts[at].value, cell->fit.value) == 0) {
            g->at = at;
            return true;
        }
    }
    return false;
}

static enum kvr_status note_options(struct kvr_key_options *g, const struct kvr_cell *cell,
                                    const json_t *parts)
{
    struct kvr_counts *more = realloc(g->counts, ((size_t)g->n + 1) * sizeof *more);
    struct kvr_counts c = { .method = cell->method };

    if (!more)
        return no_memory();
    g->counts = more;
    strcpy(c.value, cell->fit.value);
    KVR_TRY(find_out(cell, parts, &c.which));
    g->at = g->n;
    g->counts[g->n++] = c;
    return KVR_OK;
}

static json_t *options_json(const struct kvr_cell *cell, uint64_t which)
{
    json_t *o = json_object();

    for (int i = 0; o && cell->method && i < cell->method->n_settings; i++) {
        const struct kvr_setting s = kvr_cell_setting(cell, i);

        if ((i >= MOST || which >> i & 1) && json_object_set_new(o, s.name, json_string(s.value))) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all)
{
    uint64_t which = ~(uint64_t)0;

    *out = *all = NULL;
    if (cell->method && cell->method->n_settings > 0 && json_is_object(parts)) {
        if (!is_known(g, cell))
            KVR_TRY(note_options(g, cell, parts));
        which = g->counts[g->at].which;
    }
    *out = options_json(cell, which);
    *all = ~which ? options_json(cell, ~(uint64_t)0) : NULL;
    return *out && (*all || !~which) ? KVR_OK : no_memory();
}

void kvr_key_options_free(struct kvr_key_options *g)
{
    free(g->counts);
    *g = (struct kvr_key_options){ 0 };
}
