/* packed.c - copies, measures and frees coded blocks. */
#include <assert.h>

#include "methods/codec.h"

/* Copies a buffer to another device, with the same memory tag. */
static enum kvr_status copy_buf(const struct kvr_buf *from, struct kvr_dev *to, struct kvr_buf *out)
{
    struct kvr_dev *dev = from->dev;

    if (!from->p)
        return KVR_OK;
    KVR_TRY(kvr_buf_alloc(out, to, from->tag, from->n_bytes));
    if (kvr_dev_in_host(dev))
        return kvr_dev_put(to, out->p, from->p, from->n_bytes);
    if (kvr_dev_in_host(to))
        return kvr_dev_get(dev, out->p, from->p, from->n_bytes);
    kvr_dev_copy(to, out->p, from->p, from->n_bytes);
    return KVR_OK;
}

enum kvr_status kvr_packed_copy(const struct kvr_packed *p, struct kvr_dev *to,
                                struct kvr_packed *out)
{
    enum kvr_status st;

    assert(p->dev && (p->dev == to || kvr_dev_in_host(p->dev) || kvr_dev_in_host(to)));
    st = kvr_dev_sync(p->dev);
    *out =
        (struct kvr_packed){ .codec = p->codec, .dev = to, .shape = p->shape, .place = p->place };
    out->place.list = NULL;
    for (int i = 0; i < KVR_MAX_STAGES && st == KVR_OK; i++) {
        out->stage[i].n_entries = p->stage[i].n_entries;
        st = copy_buf(&p->stage[i].codes, to, &out->stage[i].codes);
        if (st == KVR_OK)
            st = copy_buf(&p->stage[i].meta, to, &out->stage[i].meta);
    }
    if (st != KVR_OK)
        kvr_packed_free(out);
    return st;
}

size_t kvr_packed_bytes(const struct kvr_packed *p)
{
    size_t n = 0;

    for (int i = 0; i < KVR_MAX_STAGES; i++)
        n += p->stage[i].codes.n_bytes + p->stage[i].meta.n_bytes;
    return n;
}

struct kvr_stage_bytes kvr_packed_nominal(const struct kvr_packed *p)
{
    struct kvr_stage_bytes total = { 0 };

    for (int i = 0; p->codec && i < p->codec->n_stages; i++) {
        const size_t n = (size_t)p->stage[i].n_entries;
        struct kvr_layout l;

        kvr_packed_layout(p, i, &l);
        total.codes += l.bytes.codes + n * l.entry.codes;
        total.meta += l.bytes.meta + n * l.entry.meta;
    }
    return total;
}

int64_t kvr_packed_n_entries(const struct kvr_packed *p)
{
    int64_t n = 0;

    for (int i = 0; i < KVR_MAX_STAGES; i++)
        n += p->stage[i].n_entries;
    return n;
}

void kvr_packed_free(struct kvr_packed *p)
{
    for (int i = 0; i < KVR_MAX_STAGES; i++) {
        kvr_buf_free(&p->stage[i].codes);
        kvr_buf_free(&p->stage[i].meta);
        kvr_joint_release(&p->stage[i].joint);
    }
    *p = (struct kvr_packed){ 0 };
}
