/* turns_cuda.c - see turns_cuda.h. */
#include "harness/bench/turns_cuda.h"

#include "harness/device/names.h"
#include "harness/device/stream.h"

enum { WARM_ROUNDS = 2 };

/* Queue a stretch between two marks. */
static enum kvr_status stretch(const struct kvr_turns *t, kvr_turn_fn *work, int first,
                               int64_t *begin, int64_t *end)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);

    if (t->busy)
        kvr_device_fill(s, t->busy->p, 0, t->busy->n_bytes);
    *begin = kvr_stream_mark(s);
    for (int i = 0; i < t->times; i++)
        KVR_TRY(work(t->ctx, first + i));
    *end = kvr_stream_mark(s);
    return KVR_OK;
}

static enum kvr_status one_round(const struct kvr_turns *t, int round, double *ns,
                                 double *reference_ns)
{
    struct kvr_stream *s = kvr_dev_stream(t->dev);
    int64_t a, b, c, d, run, reference;

    kvr_stream_forget_marks(s);
    KVR_TRY(stretch(t, t->reference, round * t->times, &a, &b));
    KVR_TRY(stretch(t, t->run, round * t->times, &c, &d));
    KVR_TRY(kvr_stream_sync(s));
    KVR_TRY(kvr_stream_between(s, a, b, &reference));
    KVR_TRY(kvr_stream_between(s, c, d, &run));
    /* A clock's tick at least: small work on an emulated device may take none. */
    *reference_ns = (double)(reference > 0 ? reference : 1) / t->times;
    *ns = (double)(run > 0 ? run : 1) / t->times;
    return KVR_OK;
}

enum kvr_status kvr_turns_run(const struct kvr_turns *t, double *ns, double *reference_ns)
{
    for (int i = 0; i < WARM_ROUNDS; i++)
        KVR_TRY(one_round(t, i, ns, reference_ns));
    for (int i = 0; i < t->rounds; i++)
        KVR_TRY(one_round(t, WARM_ROUNDS + i, &ns[i], &reference_ns[i]));
    return KVR_OK;
}

enum kvr_status kvr_turns_buffers(struct kvr_dev *dev, size_t n_bytes, int most, int *n)
{
    struct kvr_device_info info;
    size_t need;

    KVR_TRY(kvr_device_info(kvr_dev_stream(dev), &info));
    need = 1 + 2 * info.l2_bytes / (n_bytes ? n_bytes : 1);
    *n = need > (size_t)most ? most : (int)need;
    return KVR_OK;
}

void kvr_turns_judge(const struct kvr_dev *dev, struct kvr_bench_row *row)
{
    row->device = kvr_dev_name(dev);
    if (kvr_stream_emulated())
        kvr_bench_without(row, "emulated: its times say nothing of a device");
}
