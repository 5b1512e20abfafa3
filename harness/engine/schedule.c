/* schedule.c - the table of flow-matching sigmas, the timesteps that the network receives, and
 * named schedules (schedules.def). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "harness/core/join.h"
#include "harness/engine/sampler.h"
#include "harness/engine/unipc.h"

enum { TABLE = 1000 };

/* Returns u_i = 1 - i/1000 with the F32 rounding of the reference implementation. Every eighth
 * entry is computed from 1 downward in the first half of the table, and from 0 upward in the second
 * half. The seven entries after it add multiples of -1/1000 to it. The result equals the tables
 * recorded from the reference. Another order of operations changes sigma by up to 2e-7 and a
 * timestep by up to 2e-4. */
static float grid(int i)
{
    const float step = -1.0f / TABLE;
    const int first = i / 8 * 8;
    float base =
        first < TABLE / 2 ? fmaf(step, (float)first, 1.0f) : -step * (float)(TABLE - first);

    return base + (float)(i - first) * step;
}

/* LightX2V's table multiplies u_i by this factor and truncates the timesteps to integers. */
static const float whole_begin = 0.999f;

static void make_table(struct kvr_schedule *s, const struct kvr_model_config *c)
{
    const float shift = (float)c->timestep_shift;
    const bool whole = c->timesteps == KVR_TIMESTEPS_WHOLE;

    for (int i = 0; i < TABLE; i++) {
        const float u = whole ? whole_begin * grid(i) : grid(i);

        s->table_sigma[i] = shift * u / (1.0f + (shift - 1.0f) * u);
        s->table_timestep[i] = 1000.0f * s->table_sigma[i];
        if (whole)
            s->table_timestep[i] = truncf(s->table_timestep[i]);
    }
}

void kvr_schedule_make(struct kvr_schedule *s, const struct kvr_model_config *c)
{
    make_table(s, c);
    s->n_steps = c->n_steps;
    if (c->sampler == KVR_SAMPLER_UNIPC) {
        struct kvr_unipc u;

        kvr_unipc_make(&u, c->n_steps, c->timestep_shift);
        for (int i = 0; i < c->n_steps; i++) {
            s->timestep[i] = u.timestep[i];
            s->sigma[i] = s->renoise[i] = (float)u.sigma[i];
        }
        return;
    }
    for (int i = 0; i < c->n_steps; i++) {
        const int row = TABLE - (int)c->steps[i]; /* step 1000 is row 0, step 1 is row 999 */
        int index;

        s->timestep[i] =
            c->timesteps == KVR_TIMESTEPS_LISTED ? (float)c->steps[i] : s->table_timestep[row];
        index = kvr_schedule_index(s, s->timestep[i]);
        s->sigma[i] = s->renoise[i] = s->table_sigma[index];
        if (c->timesteps == KVR_TIMESTEPS_WHOLE && index + 1 < TABLE &&
            s->table_timestep[index + 1] == s->timestep[i])
            s->renoise[i] = s->table_sigma[index + 1];
    }
}

void kvr_schedule_round(struct kvr_schedule *s)
{
    for (int i = 0; i < s->n_steps; i++)
        s->timestep[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(s->timestep[i]));
}

int kvr_schedule_index(const struct kvr_schedule *s, float t)
{
    int best = 0;

    for (int i = 1; i < TABLE; i++)
        if (fabsf(s->table_timestep[i] - t) < fabsf(s->table_timestep[best] - t))
            best = i;
    return best;
}

float kvr_schedule_sigma(const struct kvr_schedule *s, float t)
{
    return s->table_sigma[kvr_schedule_index(s, t)];
}

/* --- choosing a schedule by name -------------------------------------------------------- */

static const struct named {
    const char *name;
    double shift;
    enum kvr_timesteps timesteps;
    bool rounded;
    double steps[KVR_MAX_STEPS]; /* decreasing; 0 ends the list */
} named[] = {
#define SCHEDULE(name, shift, timesteps, rounded, ...)                                             \
    { name, shift, KVR_TIMESTEPS_##timesteps, rounded, { __VA_ARGS__ } },
#include "harness/engine/schedules.def"
#undef SCHEDULE
};

const char *const kvr_schedule_names[] = { "model",
#define SCHEDULE(name, ...) name,
#include "harness/engine/schedules.def"
#undef SCHEDULE
                                           NULL };

static void put(struct kvr_model_config *c, const struct named *n)
{
    c->sampler = KVR_SAMPLER_RENOISE;
    c->timestep_shift = n->shift;
    c->timesteps = n->timesteps;
    c->rounded_timesteps = n->rounded;
    for (c->n_steps = 0; c->n_steps < KVR_MAX_STEPS && n->steps[c->n_steps] > 0; c->n_steps++)
        c->steps[c->n_steps] = n->steps[c->n_steps];
}

/* Parses an optional timestep shift "SHIFT:", and advances *text past it. SHIFT must be spelt as
 * printf's %g prints it. Without a colon in the text, *shift is 0. */
static bool parse_shift(const char **text, double *shift)
{
    const char *colon = strchr(*text, ':');
    char spelt[32], *end;

    *shift = 0;
    if (!colon)
        return true;
    *shift = strtod(*text, &end);
    snprintf(spelt, sizeof spelt, "%g:", *shift);
    if (end != colon || !(*shift >= 1e-3 && *shift <= 1e3) ||
        strncmp(spelt, *text, (size_t)(colon + 1 - *text)) != 0)
        return false;
    *text = colon + 1;
    return true;
}

/* Parses decreasing denoising steps after an optional shift, as in "5:1000-750-500-250". Without a
 * shift, out->shift is 0. */
static bool parse_list(const char *text, struct named *out)
{
    int n = 0;

    *out = (struct named){ .timesteps = KVR_TIMESTEPS_WARPED };
    if (!parse_shift(&text, &out->shift))
        return false;
    for (;; text++) {
        char *end;
        const long step = strtol(text, &end, 10);

        if (n == KVR_MAX_STEPS || *text < '1' || *text > '9' || step < 1 || step > 1000 ||
            (n > 0 && (double)step >= out->steps[n - 1]))
            return false;
        out->steps[n++] = (double)step;
        text = end;
        if (*text == 0)
            return true;
        if (*text != '-')
            return false;
    }
}

bool kvr_schedule_is_list(const char *text)
{
    struct named n;

    return parse_list(text, &n);
}

enum kvr_status kvr_schedule_choose(struct kvr_model_config *c, const char *name)
{
    struct named list;
    char names[256];

    if (strcmp(name, kvr_schedule_names[0]) == 0)
        return KVR_OK;
    if (c->is_lm)
        return kvr_fail(KVR_EUNSUPPORTED, "schedule %s: a language model has no denoising steps",
                        name);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0) {
            put(c, &named[i]);
            return KVR_OK;
        }
    if (!parse_list(name, &list))
        return kvr_fail(
            KVR_EINVAL,
            "schedule '%s': need a name (%s), or 1..%d decreasing timesteps of at most 1000, "
            "as in 1000-750-500-250, or a timestep shift before them, as in "
            "5:1000-750-500-250",
            name, kvr_join_all(names, sizeof names, kvr_schedule_names), KVR_MAX_STEPS);
    list.shift = list.shift > 0 ? list.shift : c->timestep_shift;
    put(c, &list);
    return KVR_OK;
}
