/* schedule.c - the flow-matching table and the warped steps the network is conditioned on. */
#include <math.h>

#include "harness/engine/sampler.h"

enum { TABLE = 1000 };

/* u_i = 1 - i/1000 as the reference has it in float32: a base every 8 entries, counted from the
 * nearer end, plus a multiple of the step. Another order of the same roundings moves sigma by
 * up to 2e-7, and so a timestep by 2e-4; this one gives the recorded tables. */
static float grid(int i)
{
    const float step = -1.0f / TABLE;
    const int first = i / 8 * 8;
    float base =
        first < TABLE / 2 ? fmaf(step, (float)first, 1.0f) : -step * (float)(TABLE - first);

    return base + (float)(i - first) * step;
}

void kvr_schedule_make(struct kvr_schedule *s, const struct kvr_model_config *c)
{
    const float shift = (float)c->timestep_shift;

    for (int i = 0; i < TABLE; i++) {
        float u = grid(i);

        s->table_sigma[i] = shift * u / (1.0f + (shift - 1.0f) * u);
        s->table_timestep[i] = 1000.0f * s->table_sigma[i];
    }
    s->n_steps = c->n_steps;
    for (int i = 0; i < c->n_steps; i++) {
        int index = TABLE - (int)c->steps[i]; /* 1000 -> 0, 1 -> 999; the list ends there */

        s->timestep[i] = s->table_timestep[index];
        s->sigma[i] = kvr_schedule_sigma(s, s->timestep[i]);
    }
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
