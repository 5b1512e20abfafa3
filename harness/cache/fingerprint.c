/* fingerprint.c - see fingerprint.h. The length of a buffer is hashed before its bytes, so that
 * moving bytes between buffers changes the hash. */
#include "harness/cache/fingerprint.h"

static enum kvr_status add_int(struct kvr_sha256 *h, int64_t x)
{
    return kvr_sha256_add(h, &x, sizeof x);
}

static enum kvr_status add_buf(struct kvr_sha256 *h, const struct kvr_buf *b)
{
    KVR_TRY(add_int(h, (int64_t)b->n_bytes));
    return b->n_bytes ? kvr_sha256_add(h, b->p, b->n_bytes) : KVR_OK;
}

/* Adds the stored data of a coded block to the hash. Codec stages without stored data are
 * omitted. */
static enum kvr_status add_packed(struct kvr_sha256 *h, const struct kvr_packed *p)
{
    for (int i = 0; p->codec && i < p->codec->n_stages; i++) {
        const struct kvr_stage_data *d = &p->stage[i];

        if (!d->codes.n_bytes && !d->meta.n_bytes && !d->n_entries)
            continue;
        KVR_TRY(add_int(h, d->n_entries));
        KVR_TRY(add_buf(h, &d->codes));
        KVR_TRY(add_buf(h, &d->meta));
    }
    return add_int(h, -1); /* end mark */
}

/* Adds the segment's head range to the hash, unless the segment has all `n_heads` heads. */
static enum kvr_status add_heads(struct kvr_sha256 *h, const struct kvr_segment *s, int n_heads)
{
    if (!s->k.codec || s->k.shape.n_heads == n_heads)
        return KVR_OK;
    KVR_TRY(add_int(h, s->head0));
    return add_int(h, s->k.shape.n_heads);
}

static enum kvr_status add_segment(struct kvr_sha256 *h, const struct kvr_segment *s, int n_heads)
{
    KVR_TRY(add_int(h, s->kind));
    KVR_TRY(add_int(h, s->tier));
    KVR_TRY(add_int(h, s->tok0));
    KVR_TRY(add_int(h, s->n_tok));
    KVR_TRY(add_heads(h, s, n_heads));
    if (s->weight > 1)
        KVR_TRY(add_int(h, s->weight));
    KVR_TRY(add_buf(h, &s->list));
    KVR_TRY(add_packed(h, &s->k));
    KVR_TRY(add_packed(h, &s->v));
    return add_buf(h, &s->moments);
}

enum kvr_status kvr_layer_fingerprint(const struct kvr_layer *l, char hex[KVR_SHA256_HEX])
{
    struct kvr_sha256 h = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_sha256_open(&h));
    st = add_int(&h, l->n_active);
    for (int i = 0; st == KVR_OK && i < l->n; i++)
        st = add_segment(&h, &l->seg[i], l->geo.n_heads);
    if (st != KVR_OK) {
        kvr_sha256_close(&h, NULL);
        return st;
    }
    return kvr_sha256_close(&h, hex);
}
