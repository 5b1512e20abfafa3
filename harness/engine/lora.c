/* lora.c - see lora.h. */
#include "harness/engine/lora.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/dev.h"
#include "harness/files/weights/weights.h"

enum { A, B, HALVES };

/* The factors A and B of one weight, whose low-rank update is scale B A. */
struct pair {
    char *name; /* the weight's name */
    const struct kvr_weight *half[HALVES];
    bool used;
};

struct kvr_lora {
    struct kvr_weights *file;
    struct pair *pair;
    int n;
    int rank;
    double scale; /* alpha / rank */
};

/* Removes every occurrence of `part` from s. */
static void cut_out(char *s, const char *part)
{
    const size_t n = strlen(part);

    for (char *at = strstr(s, part); at; at = strstr(at, part))
        memmove(at, at + n, strlen(at + n) + 1);
}

/* Parses the name of a factor: "base_model.model.blocks.0.ffn.0.lora_A.weight" is factor A of the
 * weight "blocks.0.ffn.0.weight". */
static enum kvr_status parse(const char *path, const char *raw, char **name, int *half)
{
    static const char *const ends[HALVES][2] = { { ".lora_A.weight", ".lora_A.default.weight" },
                                                 { ".lora_B.weight", ".lora_B.default.weight" } };
    static const char root[] = "base_model.model.";
    const char *begin = strstr(raw, root);
    size_t stem = 0;

    begin = begin ? begin + sizeof root - 1 : raw;
    for (*half = 0; *half < HALVES && !stem; ++*half)
        for (int i = 0; i < 2 && !stem; i++) {
            const size_t n = strlen(begin), m = strlen(ends[*half][i]);

            if (n > m && strcmp(begin + n - m, ends[*half][i]) == 0)
                stem = n - m;
        }
    --*half;
    if (!stem)
        return kvr_fail(KVR_EFORMAT,
                        "%s: '%.200s' is not a LoRA tensor: its name must end in .lora_A.weight or "
                        ".lora_B.weight",
                        path, raw);
    *name = malloc(stem + sizeof ".weight");
    if (!*name)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    memcpy(*name, begin, stem);
    strcpy(*name + stem, ".weight");
    cut_out(*name, "_fsdp_wrapped_module.");
    cut_out(*name, "_checkpoint_wrapped_module.");
    cut_out(*name, "_orig_mod.");
    if (strncmp(*name, "model.", 6) == 0)
        memmove(*name, *name + 6, strlen(*name + 6) + 1);
    return KVR_OK;
}

static struct pair *find(const struct kvr_lora *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->pair[i].name, name) == 0)
            return &a->pair[i];
    return NULL;
}

/* Adds the factor t of the weight `name` to the adapter; `half` is A or B. The function takes
 * ownership of `name`. */
static enum kvr_status add(struct kvr_lora *a, char *name, int half, const struct kvr_weight *t)
{
    struct pair *p = find(a, name);

    if (p) {
        free(name);
    } else {
        p = &a->pair[a->n++]; /* the array has an entry per tensor */
        *p = (struct pair){ .name = name };
    }
    if (p->half[half])
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensors '%s' and '%s' are the same LoRA factor of weight '%s'",
                        kvr_weights_path(a->file), p->half[half]->name, t->name, p->name);
    if (t->n_dims != 2)
        return kvr_fail(KVR_EFORMAT, "%s: LoRA tensor '%s' has %d dimensions, need 2",
                        kvr_weights_path(a->file), t->name, t->n_dims);
    p->half[half] = t;
    return KVR_OK;
}

static enum kvr_status read_pairs(struct kvr_lora *a)
{
    const int n = kvr_weights_count(a->file);
    const char *path = kvr_weights_path(a->file);

    a->pair = calloc((size_t)n, sizeof *a->pair);
    if (!a->pair)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d names", path, n);
    for (int i = 0; i < n; i++) {
        const struct kvr_weight *t = kvr_weights_at(a->file, i);
        char *name;
        int half;

        if (strncmp(t->name, "critic", 6) == 0)
            continue;
        KVR_TRY(parse(path, t->name, &name, &half));
        KVR_TRY(add(a, name, half, t));
    }
    return a->n ? KVR_OK
                : kvr_fail(KVR_EFORMAT,
                           "%s: the file contains no LoRA adapter (tensors NAME.lora_A.weight and "
                           "NAME.lora_B.weight)",
                           path);
}

static enum kvr_status check_pairs(struct kvr_lora *a, int rank)
{
    const char *path = kvr_weights_path(a->file);

    for (int i = 0; i < a->n; i++) {
        const struct pair *p = &a->pair[i];

        /* add() creates no pair without a factor */
        assert(p->half[A] || p->half[B]);
        if (!p->half[A] || !p->half[B])
            return kvr_fail(KVR_EFORMAT, "%s: LoRA tensor '%s' has no matching %s tensor", path,
                            p->half[p->half[A] ? A : B]->name, p->half[A] ? "lora_B" : "lora_A");
        if (!rank)
            rank = (int)p->half[A]->shape[0];
        if (p->half[A]->shape[0] != rank || p->half[B]->shape[1] != rank)
            return kvr_fail(
                KVR_EFORMAT,
                "%s: LoRA factor '%s' has rank %lld and its lora_B factor has rank %lld, "
                "need %d (lora.rank in config.json or, without it, the first pair's rank)",
                path, p->half[A]->name, (long long)p->half[A]->shape[0],
                (long long)p->half[B]->shape[1], rank);
    }
    a->rank = rank;
    return KVR_OK;
}

enum kvr_status kvr_lora_open(struct kvr_lora **out, const char *path, int rank, double alpha)
{
    struct kvr_lora *a = calloc(1, sizeof *a);
    enum kvr_status st;

    *out = NULL;
    if (!a)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    st = kvr_weights_open(&a->file, path);
    if (st == KVR_OK)
        st = read_pairs(a);
    if (st == KVR_OK)
        st = check_pairs(a, rank);
    if (st != KVR_OK) {
        kvr_lora_close(&a);
        return st;
    }
    a->scale = alpha > 0 ? alpha / a->rank : 1;
    *out = a;
    return KVR_OK;
}

void kvr_lora_close(struct kvr_lora **pa)
{
    struct kvr_lora *a = *pa;

    if (!a)
        return;
    for (int i = 0; i < a->n; i++)
        free(a->pair[i].name);
    free(a->pair);
    kvr_weights_close(&a->file);
    free(a);
    *pa = NULL;
}

/* Computes w [n,k] += scale b [n,rank] a [rank,k]. One thread computes a whole row and sums over
 * the rank in order, so the result does not depend on the number of threads. */
static void add_product(float *w, const float *a, const float *b, int64_t n, int64_t k, int rank,
                        float scale)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        for (int r = 0; r < rank; r++) {
            const float f = scale * b[i * rank + r];

            for (int64_t j = 0; j < k; j++)
                w[i * k + j] += f * a[r * k + j];
        }
    }
}

static enum kvr_status check_finite(const struct kvr_lora *a, const struct kvr_weight *t,
                                    const float *x)
{
    for (int64_t i = 0; i < t->n; i++)
        if (!isfinite(x[i]))
            return kvr_fail(
                KVR_ENAN,
                "%s: LoRA tensor '%s' contains %g at element %lld; weights must be finite",
                kvr_weights_path(a->file), t->name, (double)x[i], (long long)i);
    return KVR_OK;
}

enum kvr_status kvr_lora_merge(struct kvr_lora *a, const char *name, int64_t n, int64_t k, float *w)
{
    struct pair *p = find(a, name);
    float *x[HALVES] = { NULL };
    enum kvr_status st = KVR_OK;

    if (!p)
        return KVR_OK;
    p->used = true;
    if (p->half[A]->shape[1] != k || p->half[B]->shape[0] != n)
        return kvr_fail(KVR_EFORMAT,
                        "%s: LoRA pair '%s' fits a weight of %lld x %lld, but the model's weight "
                        "is %lld x %lld",
                        kvr_weights_path(a->file), name, (long long)p->half[B]->shape[0],
                        (long long)p->half[A]->shape[1], (long long)n, (long long)k);
    for (int h = 0; h < HALVES && st == KVR_OK && w; h++) {
        x[h] = malloc((size_t)p->half[h]->n * sizeof *x[h]);
        st = x[h] ? kvr_weight_f32(p->half[h], 0, p->half[h]->n, x[h])
                  : kvr_fail(KVR_ENOMEM, "%s: out of memory", kvr_weights_path(a->file));
        if (st == KVR_OK)
            st = check_finite(a, p->half[h], x[h]);
    }
    if (st == KVR_OK && w)
        add_product(w, x[A], x[B], n, k, a->rank, (float)a->scale);
    free(x[A]);
    free(x[B]);
    return st;
}

enum kvr_status kvr_lora_check_used(const struct kvr_lora *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->pair[i].used)
            return kvr_fail(
                KVR_EFORMAT,
                "%s: LoRA tensor '%s' adapts '%s', which is not a linear layer of this model",
                kvr_weights_path(a->file), a->pair[i].half[A]->name, a->pair[i].name);
    return KVR_OK;
}
