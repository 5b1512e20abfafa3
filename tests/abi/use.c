/* use.c - a program that uses only libkvreel's public header. */
#if __has_include(<kvreel.h>)
#include <kvreel.h> /* as installed */
#else
#include "harness/abi/kvreel.h"
#endif
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 64, HEADS = 2, DIM = 32, N = TOKENS * HEADS * DIM };

static float k[N], v[N], k2[N], v2[N], q[HEADS * DIM], out[HEADS * DIM];

static int n_failed;

static void check(const char *what, int passed)
{
    if (!passed) {
        printf("%s: %s\n", what, kvreel_error());
        n_failed++;
    }
}

static void check_method(void)
{
    kvreel_method *m = NULL;
    char *json = NULL;

    check("an unknown method is refused",
          kvreel_method_open(&m, "RTN_INT5", NULL) == KVREEL_ENOTFOUND && !m &&
              strstr(kvreel_error(), "did you mean"));
    check("a setting without a value is refused",
          kvreel_method_open(&m, "RTN_INT4", (const char *const[]){ "group", NULL }) ==
                  KVREEL_EINVAL &&
              strstr(kvreel_error(), "key=value"));
    check("a setting out of bounds is refused",
          kvreel_method_open(&m, "RTN_INT4", (const char *const[]){ "bits=77", NULL }) ==
              KVREEL_EINVAL);
    check("the registry lists RTN_INT4", !kvreel_registry(&json) && strstr(json, "\"RTN_INT4\""));
    kvreel_free(json);
    check("bytes are predicted", !kvreel_method_open(&m, "RTN_INT4", NULL) &&
                                     !kvreel_predict(m, "wan-1.3b", 3, &json) &&
                                     strstr(json, "\"nominal_bytes\":"));
    kvreel_free(json);
    check("a prediction for 0 frames is refused",
          kvreel_predict(m, "wan-1.3b", 0, &json) == KVREEL_EINVAL && !json);
    kvreel_method_close(&m);
}

/* A caller built with an older header passes a shorter struct, without the fields that were added
 * later. The field `size` holds the struct's length in bytes. */
static void check_sizes(const kvreel_method *m)
{
    struct kvreel_block_shape s = { .n_tok = TOKENS, .n_heads = HEADS, .head_dim = DIM };
    kvreel_block *b = NULL;
    struct {
        struct kvreel_bytes bytes;
        uint64_t beyond;
    } later = { .bytes = { .size = sizeof later }, .beyond = 77 };

    check("a struct of size 0 is refused", kvreel_block_encode(&b, m, k, v, &s) == KVREEL_EINVAL);
    s.size = offsetof(struct kvreel_block_shape, tokens_per_frame);
    s.tokens_per_frame = -5; /* this field lies beyond `size`, so it must be ignored */
    check("a shorter struct is accepted", !kvreel_block_encode(&b, m, k, v, &s));
    check("a longer struct is accepted",
          !kvreel_block_bytes(b, &later.bytes) && later.beyond == 77 &&
              later.bytes.size == sizeof later && later.bytes.tokens == TOKENS);
    kvreel_block_free(&b);
    s = (struct kvreel_block_shape){ .size = sizeof s, .n_tok = -1, .n_heads = 1, .head_dim = 8 };
    check("a negative number of tokens is refused",
          kvreel_block_encode(&b, m, k, v, &s) == KVREEL_EINVAL && !b);
}

static void check_block(const kvreel_method *m)
{
    struct kvreel_block_shape s = { sizeof s, .n_tok = TOKENS, .n_heads = HEADS, .head_dim = DIM };
    struct kvreel_bytes bytes = { .size = sizeof bytes };
    kvreel_block *b = NULL;
    char hex[65] = "";
    float worst = 0;

    check("a block is encoded", !kvreel_block_encode(&b, m, k, v, &s));
    check("a block is decoded", !kvreel_block_decode(b, k2, v2, NULL));
    for (int i = 0; i < N; i++)
        worst = fmaxf(worst, fmaxf(fabsf(k2[i] - k[i]), fabsf(v2[i] - v[i])));
    /* Values are in [-1, 1], so the step of the 8-bit codes is at most 1/127. The error is at most
     * half a step (.0039), plus the rounding of the FP16 scale. */
    check("decoded values are close to the input", worst > 0 && worst <= 0.005f);
    check("byte counts of a block", !kvreel_block_bytes(b, &bytes) &&
                                        bytes.resident == bytes.nominal &&
                                        bytes.resident < bytes.bf16 && bytes.bf16 == 2 * 2 * N);
    check("hash of a block", !kvreel_block_hash(b, hex) && strlen(hex) == 64);
    check("attention over a block", !kvreel_block_attend(b, q, 1, HEADS, out));
    for (int i = 0; i < HEADS * DIM; i++)
        check("attention outputs are at most 1.005", fabsf(out[i]) <= 1.005f);
    check("3 query heads on 2 KV heads are refused",
          kvreel_block_attend(b, q, 1, 3, out) == KVREEL_EINVAL);
    kvreel_block_free(&b);
    kvreel_block_free(&b); /* freeing a NULL block is allowed */
}

/* Attention over no token is not defined. A budget of 1e-6 of the tokens is rounded to 0. */
static void check_empty_heads(const char *scope)
{
    const char *const settings[] = { "share=1e-6", "recent=0", "sink=0", scope, NULL };
    struct kvreel_block_shape s = { sizeof s, .n_tok = TOKENS, .n_heads = HEADS, .head_dim = DIM };
    kvreel_method *m = NULL;
    kvreel_block *b = NULL;

    check("KEY_NORM with a budget of 0 is opened", !kvreel_method_open(&m, "KEY_NORM", settings));
    check("a block that stores no token is encoded", !kvreel_block_encode(&b, m, k, v, &s));
    check("attention over a block that stores no token is refused",
          kvreel_block_attend(b, q, 1, HEADS, out) == KVREEL_EINVAL &&
              strstr(kvreel_error(), "every token of KV head 0"));
    kvreel_block_free(&b);
    kvreel_method_close(&m);
}

int main(void)
{
    kvreel_method *m = NULL;

    for (int i = 0; i < N; i++) {
        k[i] = sinf((float)i * 0.7f);
        v[i] = cosf((float)i * 0.3f);
    }
    for (int i = 0; i < HEADS * DIM; i++)
        q[i] = sinf((float)i);
    check("library and header have the same ABI version", kvreel_abi() == KVREEL_ABI);
    check_method();
    check("RTN_INT8 is opened", !kvreel_method_open(&m, "RTN_INT8", NULL));
    check("a method has its name", !strcmp(kvreel_method_name(m), "RTN_INT8"));
    check_sizes(m);
    check_block(m);
    kvreel_method_close(&m);
    check_empty_heads("scope=layer");
    check_empty_heads("scope=head");
    if (!n_failed)
        puts("used");
    return n_failed != 0;
}
