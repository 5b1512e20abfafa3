/* mirror.c - copies a layer, and an observer's view of an attention call, from a device to the
 * host. */
#include "harness/cache/mirror.h"

#include <stdlib.h>
#include <string.h>

static enum kvr_status copy_buf(const struct kvr_buf *b, struct kvr_dev *host, struct kvr_buf *out)
{
    KVR_TRY(kvr_buf_alloc(out, host, b->tag, b->n_bytes));
    return b->p ? kvr_dev_get(b->dev, out->p, b->p, b->n_bytes) : KVR_OK;
}

static enum kvr_status copy_segment(const struct kvr_segment *s, struct kvr_dev *host,
                                    struct kvr_segment *out)
{
    *out = *s;
    out->k = out->v = (struct kvr_packed){ 0 };
    out->list = out->shown = out->moments = (struct kvr_buf){ 0 };
    if (s->k.codec)
        KVR_TRY(kvr_packed_copy(&s->k, host, &out->k));
    if (s->v.codec)
        KVR_TRY(kvr_packed_copy(&s->v, host, &out->v));
    KVR_TRY(copy_buf(&s->list, host, &out->list));
    out->k.place.list = s->k.place.list ? out->list.p : NULL;
    out->v.place.list = s->v.place.list ? out->list.p : NULL;
    return copy_buf(&s->moments, host, &out->moments);
}

enum kvr_status kvr_layer_mirror(const struct kvr_layer *l, struct kvr_layer *out)
{
    *out = *l;
    out->dev = kvr_dev_host(l->dev);
    out->n = out->cap = 0;
    memset(out->state, 0, sizeof out->state);
    out->seg = calloc((size_t)l->n + 1, sizeof *out->seg);
    if (!out->seg)
        return kvr_fail(KVR_ENOMEM, "cache: out of memory while allocating %d token segments",
                        l->n);
    out->cap = l->n + 1;
    for (int i = 0; i < l->n; i++) {
        out->n = i + 1;
        KVR_TRY(copy_segment(&l->seg[i], out->dev, &out->seg[i]));
    }
    return KVR_OK;
}

/* Copies n bytes of device memory at *p to the host and sets *p to the address of the copy. */
static enum kvr_status fetch(struct kvr_dev *dev, const void **p, size_t n, struct kvr_buf *buf)
{
    KVR_TRY(kvr_buf_alloc(buf, kvr_dev_host(dev), KVR_MEM_SCRATCH, n));
    KVR_TRY(kvr_dev_get(dev, buf->p, *p, n));
    *p = buf->p;
    return KVR_OK;
}

static enum kvr_status show_copy(const struct kvr_cache_view *view, kvr_cache_observer_fn *fn,
                                 void *ctx)
{
    const size_t n =
        (size_t)view->n_tok * (size_t)view->shape->n_heads * (size_t)view->shape->head_dim;
    const size_t exact = n * kvr_dtype_size(view->shape->exact), floats = n * sizeof(float);
    struct kvr_dev *dev = view->past->dev;
    struct kvr_cache_view host = *view;
    const void *p[4] = { view->k, view->v, view->q, view->out };
    struct kvr_buf buf[4] = { { 0 } };
    struct kvr_layer past;
    enum kvr_status st = kvr_layer_mirror(view->past, &past);

    for (int i = 0; i < 4 && p[i] && st == KVR_OK; i++) /* q and out may be NULL */
        st = fetch(dev, &p[i], i < 2 ? exact : floats, &buf[i]);
    if (st == KVR_OK) {
        host.past = &past;
        host.k = p[0];
        host.v = p[1];
        host.q = p[2];
        host.out = p[3];
        st = fn(ctx, &host);
    }
    for (int i = 0; i < 4; i++)
        kvr_buf_free(&buf[i]);
    kvr_layer_close(&past);
    return st;
}

enum kvr_status kvr_view_in_host(const struct kvr_cache_view *view, kvr_cache_observer_fn *fn,
                                 void *ctx)
{
    return kvr_dev_in_host(view->past->dev) ? fn(ctx, view) : show_copy(view, fn, ctx);
}
