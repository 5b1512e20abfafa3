/* attend.c - dispatches the functions of attend.h to the implementation for the device. */
#include "harness/cache/attend_impl.h"

static const struct kvr_attend_kind *const kinds[KVR_N_BACKENDS] = {
    [KVR_CPU] = &kvr_attend_cpu,
    [KVR_CUDA] = &kvr_attend_cuda,
};

struct kvr_attend_bytes kvr_attend_scratch_bytes(const struct kvr_attend_needs *n,
                                                 enum kvr_backend backend)
{
    return kinds[backend]->bytes(n);
}

enum kvr_status kvr_attend_check(const struct kvr_attend_needs *n, enum kvr_backend backend)
{
    return kinds[backend]->check ? kinds[backend]->check(n) : KVR_OK;
}

enum kvr_status kvr_attend_fuses(const struct kvr_dev *dev, const struct kvr_codec *k,
                                 const struct kvr_codec *v, const struct kvr_correction *c,
                                 int n_heads, int head_dim)
{
    const struct kvr_attend_kind *kind = kinds[kvr_dev_backend(dev)];

    return kind->fuses ? kind->fuses(dev, k, v, c, n_heads, head_dim) : KVR_OK;
}

bool kvr_attend_accepts_bf16(const struct kvr_attend_needs *n, enum kvr_backend backend)
{
    return kinds[backend]->bf16 && kinds[backend]->bf16(n);
}

enum kvr_status kvr_attend_reserve(struct kvr_attend_scratch *s, struct kvr_dev *dev,
                                   const struct kvr_attend_needs *n)
{
    const struct kvr_attend_bytes bytes = kvr_attend_scratch_bytes(n, kvr_dev_backend(dev));

    s->dev = dev;
    if (n->head_dim > KVR_ATTEND_MAX_D)
        return kvr_fail(KVR_EUNSUPPORTED, "attention: head_dim is %d, at most %d is supported",
                        n->head_dim, KVR_ATTEND_MAX_D);
    if (bytes.tiles)
        KVR_TRY(kvr_buf_reserve(&s->tiles, dev, KVR_MEM_SCRATCH, bytes.tiles));
    if (bytes.rows)
        KVR_TRY(kvr_buf_reserve(&s->rows, dev, KVR_MEM_SCRATCH, bytes.rows));
    KVR_TRY(kvr_buf_reserve(&s->state, dev, KVR_MEM_SCRATCH, bytes.state));
    if (bytes.heads)
        KVR_TRY(kvr_buf_reserve(&s->heads, dev, KVR_MEM_SCRATCH, bytes.heads));
    if (bytes.parts)
        KVR_TRY(kvr_buf_reserve(&s->parts, dev, KVR_MEM_SCRATCH, bytes.parts));
    if (bytes.coded)
        KVR_TRY(kvr_buf_reserve(&s->coded, dev, KVR_MEM_SCRATCH, bytes.coded));
    return kinds[kvr_dev_backend(dev)]->prepare ? kinds[kvr_dev_backend(dev)]->prepare(n, s)
                                                : KVR_OK;
}

void kvr_attend_release(struct kvr_attend_scratch *s)
{
    kvr_buf_free(&s->tiles);
    kvr_buf_free(&s->rows);
    kvr_buf_free(&s->state);
    kvr_buf_free(&s->heads);
    kvr_buf_free(&s->parts);
    kvr_buf_free(&s->coded);
}

void kvr_attend(const struct kvr_attend_job *job, struct kvr_attend_scratch *s)
{
    kvr_phase_begin(job->phases, KVR_ATTEND_PHASE);
    kinds[kvr_dev_backend(s->dev)]->run(job, s);
    kvr_phase_end(job->phases, KVR_ATTEND_PHASE);
}

enum kvr_status kvr_attend_columns(const struct kvr_column_job *job, struct kvr_attend_scratch *s)
{
    return kinds[kvr_dev_backend(s->dev)]->columns(job, s);
}
