/* trace_synth.c - `kvreel trace synth`: writes a synthetic trace without a model. */
#include <stdio.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/trace.h"
#include "harness/core/path.h"
#include "harness/plan/geometry.h"
#include "harness/workload/synth.h"

struct synth {
    const struct kvr_trace_opts *o;
    struct kvr_trace *like; /* trace to imitate (--like); NULL: use the options */
    struct kvr_trace_info info;
    struct kvr_geometry geo; /* dimensions of --preset; geo.name becomes the model name */
    char source[160];
    int passes;
};

static int show(void *ctx, int done, int total)
{
    const struct synth *s = ctx;

    if (!s->o->quiet && !s->o->json)
        fprintf(stderr, "kvreel: trace: wrote chunk %d of %d\n", done, total);
    return 0;
}

/* Reads the layer count, head sizes and tokens per frame from --preset, or else from the --like
 * trace. */
static enum kvr_status find_layout(struct synth *s)
{
    struct kvr_trace_layout *l = &s->info.layout;

    if (s->o->preset) {
        KVR_TRY(kvr_geometry_find(s->o->preset, &s->geo));
        *l = (struct kvr_trace_layout){ .n_layers = s->geo.n_layers,
                                        .n_heads = s->geo.n_heads,
                                        .n_kv_heads = s->geo.n_heads,
                                        .head_dim = s->geo.head_dim,
                                        .tokens_per_frame = s->geo.tokens_per_frame,
                                        .frames_per_chunk = s->geo.frames_per_chunk };
    } else {
        *l = kvr_trace_info(s->like)->layout;
    }
    if (s->o->layers > l->n_layers)
        return kvr_fail(KVR_EINVAL, "trace: --layers %d exceeds the number of layers of %s %s, %d",
                        s->o->layers, s->o->preset ? "--preset" : "--like",
                        s->o->preset ? s->o->preset : s->o->like, l->n_layers);
    l->n_layers = s->o->layers ? s->o->layers : l->n_layers;
    return KVR_OK;
}

/* Fills the fields on the trace's origin, which name the source of its statistics. */
static void find_about(struct synth *s)
{
    const struct kvr_trace_info *like = s->like ? kvr_trace_info(s->like) : NULL;

    if (like)
        s->info.model = like->model;
    if (s->o->preset)
        s->info.model = kvr_path_base(s->geo.name);
    if (s->o->name)
        s->info.model = s->o->name;
    s->info.licence = like ? like->licence : "none: drawn numbers";
    if (strcmp(s->o->licence, "unknown") != 0)
        s->info.licence = s->o->licence;
    if (like)
        snprintf(s->source, sizeof s->source,
                 "randomly drawn, with the statistics of a trace of %.64s", like->model);
    else
        snprintf(s->source, sizeof s->source,
                 "randomly drawn: %d outlier channels of %g standard deviations; correlation %g "
                 "between frames, %g between queries and keys",
                 s->o->outliers, s->o->size, s->o->rho, s->o->toward);
    s->info.source = s->source;
    s->info.text = "synthetic";
    s->info.seed = s->o->seed;
    s->info.window_frames = s->o->window > 0 ? s->o->window : 0;
    s->passes = s->o->passes ? s->o->passes : like ? like->most_passes : 1;
}

static enum kvr_status write_it(struct synth *s, const char *out, int64_t *bytes)
{
    const struct kvr_trace_opts *o = s->o;
    struct kvr_synth stats = { 0 };
    enum kvr_status st;

    KVR_TRY(find_layout(s));
    find_about(s);
    st = s->like ? kvr_synth_measure(&stats, s->like, NULL, NULL)
                 : kvr_synth_outliers(&stats, s->info.layout.head_dim, o->outliers, o->size, o->rho,
                                      o->toward);
    if (st == KVR_OK)
        st = kvr_synth_write(&stats, &s->info, o->frames, s->passes, out, show, s, bytes);
    kvr_synth_free(&stats);
    return st;
}

int kvr_cli_trace_synth(const struct kvr_trace_opts *o, const char *out)
{
    struct synth s = { .o = o };
    int64_t bytes = 0;
    enum kvr_status st = KVR_OK;

    if (!o->like && !o->preset)
        st = kvr_fail(
            KVR_EINVAL,
            "trace: synth needs --preset NAME (a model whose numbers of layers and heads the trace "
            "gets), --like DIR (a trace whose statistics are reproduced), or both");
    if (st == KVR_OK && o->like)
        st = kvr_trace_open(&s.like, o->like);
    if (st == KVR_OK)
        st = write_it(&s, out, &bytes);
    kvr_trace_close(&s.like);
    return st == KVR_OK ? kvr_cli_trace_written(o, out, bytes) : kvr_cli_fail(st);
}
