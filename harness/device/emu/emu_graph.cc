/* emu_graph.cc - CUDA graphs on the emulated device. A graph is a list of kernel launches, copies
 * and fills. */
#include "harness/device/emu/emu_machine.cuh"

#include <cstdlib>

namespace kvr_emu
{

bool capturing(const struct kvr_stream *s)
{
    return s->capture.on;
}

void *keep_step(struct kvr_stream *s, const struct shape *shape, player *play, size_t n)
{
    struct step *step;

    if (s->failed || refused(s, shape))
        return NULL;
    step = (struct step *)malloc(sizeof *step + n);
    if (!step) {
        record(s, "out of memory while allocating a step of a graph");
        return NULL;
    }
    *step = { NULL, play, *shape };
    if (s->graph->last)
        s->graph->last->next = step;
    else
        s->graph->first = step;
    s->graph->last = step;
    return step + 1;
}

} // namespace kvr_emu

enum kvr_status kvr_stream_capture_begin(struct kvr_stream *s)
{
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_stream_capture_begin"));
    s->graph = (struct kvr_graph *)calloc(1, sizeof *s->graph);
    if (!s->graph)
        return kvr_fail(KVR_ENOMEM, "device emulated: out of memory while allocating a graph");
    s->capture.on = true;
    return KVR_OK;
}

bool kvr_stream_capturing(const struct kvr_stream *s)
{
    return s->capture.on;
}

enum kvr_status kvr_stream_capture_end(struct kvr_stream *s, struct kvr_graph **out)
{
    enum kvr_status st = kvr_capture_ended(&s->capture);

    *out = NULL;
    if (st == KVR_OK)
        st = kvr_stream_sync(s);
    if (st == KVR_OK)
        *out = s->graph;
    else
        kvr_graph_close(&s->graph);
    s->graph = NULL;
    return st;
}

enum kvr_status kvr_graph_launch(struct kvr_stream *s, struct kvr_graph *g)
{
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_graph_launch"));
    for (struct step *step = g->first; step; step = step->next)
        step->play(s, &step->shape, step + 1);
    return KVR_OK;
}

void kvr_graph_close(struct kvr_graph **g)
{
    struct step *step = *g ? (*g)->first : NULL, *next;

    for (; step; step = next) {
        next = step->next;
        free(step);
    }
    free(*g);
    *g = NULL;
}
