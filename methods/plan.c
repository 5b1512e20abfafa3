/* plan.c - a method, its reading and its options, settled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/method.h"

/* NAME, NAME@study, NAME@intended. */
static enum kvr_status split_spec(const char *spec, char *name, size_t n,
                                  enum kvr_reading *reading)
{
    const char *at = strchr(spec, '@');
    size_t len = at ? (size_t)(at - spec) : strlen(spec);

    if (len == 0 || len >= n)
        return kvr_fail(KVR_EINVAL, "method name '%s': empty or longer than %zu characters", spec,
                        n - 1);
    memcpy(name, spec, len);
    name[len] = 0;
    *reading = KVR_INTENDED;
    if (!at || !strcmp(at, "@intended"))
        return KVR_OK;
    if (strcmp(at, "@study"))
        return kvr_fail(KVR_EINVAL, "'%s': a reading is @study or @intended", spec);
    *reading = KVR_STUDY;
    return KVR_OK;
}

/* "bits" goes to both codecs, "k.bits" and "v.bits" to one. */
static enum kvr_status apply(struct kvr_plan *p, const struct kvr_setting *s)
{
    const char *name = s->name;
    bool to_k = true, to_v = true;
    int nk = 0, nv = 0;

    if (!strncmp(name, "k.", 2) || !strncmp(name, "v.", 2)) {
        to_k = name[0] == 'k';
        to_v = name[0] == 'v';
        name += 2;
    }
    if (!strcmp(name, "compute") && to_k && to_v) {
        if (strcmp(s->value, "f32") && strcmp(s->value, "bf16"))
            return kvr_fail(KVR_EINVAL, "%s: compute is '%s', expected f32 or bf16", p->name,
                            s->value);
        p->k->compute = p->v->compute =
            strcmp(s->value, "bf16") ? KVR_COMPUTE_F32 : KVR_COMPUTE_BF16;
        return KVR_OK;
    }
    if (to_k)
        KVR_TRY(kvr_codec_set(p->k, name, s->value, &nk));
    if (to_v)
        KVR_TRY(kvr_codec_set(p->v, name, s->value, &nv));
    if (nk + nv == 0)
        return kvr_fail(KVR_EINVAL, "%s has no option '%s' (`kvreel show %s` lists them)", p->name,
                        s->name, p->method->name);
    return KVR_OK;
}

enum kvr_status kvr_plan_open(struct kvr_plan **out, const char *spec,
                              const struct kvr_setting *settings, int n_settings)
{
    struct kvr_plan *p = calloc(1, sizeof *p);
    char name[80];
    enum kvr_status st;

    if (!p)
        return kvr_fail(KVR_ENOMEM, "plan: no memory");
    st = split_spec(spec, name, sizeof name, &p->reading);
    if (st == KVR_OK)
        st = kvr_method_require(&p->method, name);
    if (st != KVR_OK)
        goto fail;
    snprintf(p->name, sizeof p->name, "%s%s", p->method->name,
             p->reading == KVR_STUDY ? "@study" : "");
    if (p->reading == KVR_STUDY && !p->method->study) {
        st = kvr_fail(KVR_EINVAL, "%s is not one of the study's methods: it has no @study reading",
                      p->method->name);
        goto fail;
    }
    if (p->reading == KVR_STUDY) {
        st = kvr_fail(KVR_EUNSUPPORTED, "%s: the study reading is not built yet", p->name);
        goto fail;
    }
    p->cadence = KVR_CADENCE_CLEAN;
    st = kvr_codec_open(&p->k, p->method->k, KVR_K, p->reading == KVR_STUDY);
    if (st == KVR_OK)
        st = kvr_codec_open(&p->v, p->method->v, KVR_V, p->reading == KVR_STUDY);
    for (int i = 0; i < n_settings && st == KVR_OK; i++) {
        st = apply(p, &settings[i]);
        if (st != KVR_OK)
            st = kvr_fail_prefix(st, "%s=%s", settings[i].name, settings[i].value);
    }
    if (st != KVR_OK)
        goto fail;
    *out = p;
    return KVR_OK;
fail:
    kvr_plan_close(&p);
    return st;
}

void kvr_plan_close(struct kvr_plan **p)
{
    if (!*p)
        return;
    kvr_codec_close(&(*p)->k);
    kvr_codec_close(&(*p)->v);
    free(*p);
    *p = NULL;
}

enum kvr_status kvr_plan_check(const struct kvr_plan *p, int n_heads, int head_dim)
{
    enum kvr_status st = kvr_codec_check(p->k, n_heads, head_dim);

    if (st == KVR_OK)
        st = kvr_codec_check(p->v, n_heads, head_dim);
    return st == KVR_OK ? st : kvr_fail_prefix(st, "%s", p->name);
}

double kvr_plan_bits(const struct kvr_plan *p, int n_heads, int head_dim)
{
    /* Enough tokens that the last ragged group does not show. */
    const struct kvr_block_shape shape = { 1 << 16, n_heads, head_dim };
    const double n = 2.0 * (double)shape.n_tok * n_heads * head_dim;

    return 8.0 *
           (double)(kvr_codec_bytes(p->k, &shape, 0) + kvr_codec_bytes(p->v, &shape, 0)) / n;
}
