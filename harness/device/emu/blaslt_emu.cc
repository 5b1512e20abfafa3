/* blaslt_emu.cc - implements blaslt.h for the emulator. The emulator does not use cuBLASLt. The
 * functions call a substitute library from the tests, which the environment variable
 * KVREEL_CUBLASLT names. */
#include "harness/device/blaslt.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include "harness/core/library.h"

struct kvr_blaslt {
    void *library;
    kvr_standin_blaslt_fn *product;
    struct kvr_stream *stream;
};

struct kvr_blaslt_plan {
    struct kvr_blaslt_shape shape;
};

static enum kvr_status load(void **library, kvr_standin_blaslt_fn **product)
{
    const char *env = getenv("KVREEL_CUBLASLT");

    *library = NULL;
    if (env && !strcmp(env, "none"))
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: disabled by KVREEL_CUBLASLT=none");
    if (!env || !*env)
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: kernels are emulated");
    if (kvr_library_open(library, env, RTLD_NOW | RTLD_LOCAL) != KVR_OK)
        return kvr_fail_prefix(KVR_EUNSUPPORTED, "cuBLASLt");
    *product = (kvr_standin_blaslt_fn *)dlsym(*library, "kvr_standin_blaslt");
    if (*product && dlsym(*library, "kvr_on_the_emulated_device"))
        return KVR_OK;
    dlclose(*library);
    *library = NULL;
    return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt: kernels are emulated; %s needs a GPU", env);
}

enum kvr_status kvr_blaslt_find(char *words, size_t n)
{
    kvr_standin_blaslt_fn *product;
    void *library;

    if (n)
        *words = 0;
    KVR_TRY(load(&library, &product));
    snprintf(words, n, "cuBLASLt stand-in");
    dlclose(library);
    return KVR_OK;
}

enum kvr_status kvr_blaslt_open(struct kvr_blaslt **out, struct kvr_stream *s)
{
    struct kvr_blaslt lt = { NULL, NULL, s };

    *out = NULL;
    KVR_TRY(load(&lt.library, &lt.product));
    *out = (struct kvr_blaslt *)malloc(sizeof **out);
    if (!*out) {
        dlclose(lt.library);
        return kvr_fail(KVR_ENOMEM, "cuBLASLt: out of memory");
    }
    **out = lt;
    return KVR_OK;
}

void kvr_blaslt_close(struct kvr_blaslt **lt)
{
    if (!*lt)
        return;
    dlclose((*lt)->library);
    free(*lt);
    *lt = NULL;
}

enum kvr_status kvr_blaslt_plan(struct kvr_blaslt_plan **out, struct kvr_blaslt *lt,
                                const struct kvr_blaslt_shape *shape)
{
    *out = NULL;
    KVR_TRY(lt->product(lt->stream, shape, NULL, NULL, NULL, NULL));
    *out = (struct kvr_blaslt_plan *)malloc(sizeof **out);
    if (!*out)
        return kvr_fail(KVR_ENOMEM, "cuBLASLt: out of memory");
    (*out)->shape = *shape;
    return KVR_OK;
}

void kvr_blaslt_plan_close(struct kvr_blaslt_plan **p)
{
    free(*p);
    *p = NULL;
}

enum kvr_status kvr_blaslt_run(struct kvr_blaslt *lt, const struct kvr_blaslt_plan *p,
                               const void *x, const void *w, const void *bias, void *y, void *)
{
    return lt->product(lt->stream, &p->shape, x, w, p->shape.bias ? bias : NULL, y);
}
