/* sweep_size.c - limits the number of cells and the time to find option values for bit budgets; see
 * sweep_impl.h. */
#include "harness/plan/sweep_impl.h"

#include "harness/plan/geometry.h"
#include "harness/plan/sweep.h"

/* Returns an upper bound on the number of cells before any cell is built. */
static double count_cells(const struct kvr_sweep *s)
{
    const struct kvr_config *c = s->config;
    double n = c->set.repeats + c->set.jitter, prompts = 0;
    int zipped = 1;

    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const int k = c->values[i].n > 1 ? c->values[i].n : 1;

        if (!(kvr_setting_rows[i].flags & KVR_SET_AXIS))
            continue;
        if (c->zip >> i & 1)
            zipped = k;
        else
            n *= k;
    }
    for (int i = 0; i < c->n_suites; i++)
        prompts += c->suite[i].n_prompts;
    return n * zipped * prompts * c->n_models * (c->n_methods + s->default_baselines->n);
}

static bool asks_to_solve(const struct kvr_config_method *m)
{
    double bits;

    for (int i = 0; i < m->n_settings; i++)
        if (kvr_fit_asked(m->setting[i].value, &bits))
            return true;
    return false;
}

/* Measured: planning 101 000 cells takes 6.6 s on a Cascade Lake core at 2.5 GHz. */
#define PLAN_S_PER_CELL 65e-6

/* Returns the time in seconds to find an option value for one bit budget, summed over models and
 * the video lengths in setting `frames`. The video lengths that suites and traces define are few
 * and short, and are ignored. */
static double seconds_a_budget(const struct kvr_config *c)
{
    const struct kvr_setting_values *frames = &c->values[KVR_SET_frames];
    struct kvr_geometry geo;
    double s = 0;

    for (int m = 0; m < c->n_models; m++) {
        if (kvr_geometry_of(&c->model[m], c->set.model_layers, &geo) != KVR_OK)
            continue; /* an unreadable model is reported when its cells are planned */
        for (int i = 0; i < frames->n; i++) {
            struct kvr_settings set = c->set;

            kvr_setting_choose(&set, KVR_SET_frames, frames, i);
            s += kvr_fit_seconds(&geo, set.frames);
        }
    }
    return s;
}

static enum kvr_status check_solving(const struct kvr_sweep *s)
{
    const struct kvr_config *c = s->config;
    int n = 0;
    double seconds;

    for (int i = 0; i < c->n_methods; i++)
        n += asks_to_solve(&c->method[i]);
    for (int i = 0; i < s->default_baselines->n; i++)
        n += asks_to_solve(&s->default_baselines->method[i]);
    seconds = n ? n * seconds_a_budget(c) : 0;
    if (seconds <= MAX_SOLVE_S)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "%s: choosing the option values for its %d budgets (`fit` and default "
                    "baselines) takes about %.0f s, at most %d s are allowed: use fewer budgets, "
                    "`baselines: none`, or fewer values of frames",
                    c->path, n, seconds, MAX_SOLVE_S);
}

enum kvr_status kvr_sweep_check_size(const struct kvr_sweep *s)
{
    const double n = count_cells(s);

    if (n > MAX_CELLS)
        return kvr_fail(KVR_EINVAL,
                        "%s: the sweep has about %.3g cells, at most %d are allowed, since "
                        "planning alone takes about %.0f s; split the sweep or shorten its lists",
                        s->config->path, n, MAX_CELLS, n * PLAN_S_PER_CELL);
    return check_solving(s);
}
