/* test_policy_cuda.c - tiers and retention of every method make the same decisions on both
 * backends, chunk by chunk. */
#include "methods/method.h"
#include "tests/methods/codec_tools.h"
#include "tests/suite.h"

enum { S = 10, FRAMES = 3, H = 2, D = 20, CHUNK = S * FRAMES, CHUNKS = 7 };
enum { ACTIVE = CHUNK * (CHUNKS - 1) + 2 * S + 4, CAPACITY = CHUNK * CHUNKS }; /* partial frame */

static struct kvr_dev *devs[2];
static const char *specs[128];
static int n_specs;

/* Inputs and decisions of one backend. */
struct side {
    struct kvr_dev *dev;
    struct kvr_buf k, v; /* [CAPACITY,H,D] */
    struct kvr_policy_state state[2];
    uint8_t map[CAPACITY];
};

static void open_side(struct side *s, struct kvr_dev *dev, const float *k, const float *v)
{
    const size_t n = CAPACITY * H * D * sizeof *k;

    *s = (struct side){ .dev = dev };
    ck_assert_int_eq(kvr_buf_alloc(&s->k, dev, KVR_MEM_SCRATCH, n), KVR_OK);
    ck_assert_int_eq(kvr_buf_alloc(&s->v, dev, KVR_MEM_SCRATCH, n), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, s->k.p, k, n), KVR_OK);
    ck_assert_int_eq(kvr_dev_put(dev, s->v.p, v, n), KVR_OK);
}

static void close_side(struct side *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->state[i].buf.p)
            ck_assert_ptr_eq(s->state[i].buf.dev, kvr_dev_host(s->dev));
        kvr_buf_free(&s->state[i].buf);
    }
    kvr_buf_free(&s->k);
    kvr_buf_free(&s->v);
}

/* Runs tiers and retention on a cache of `active` tokens. A policy's own version gets only the last
 * `fresh` tokens as new; the study's version gets all tokens as new. */
static enum kvr_status decide(struct side *s, const struct kvr_scheme *p, int64_t active,
                              int64_t fresh, double beta)
{
    const bool study = kvr_scheme_is_study(p);
    const int64_t new0 = study ? 0 : active - fresh;
    const bool shared =
        p->tiers.part && p->retention.part && !strcmp(p->tiers.part->name, p->retention.part->name);
    const struct kvr_policy_ctx ctx = {
        .study = study,
        .n_layers = 1,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .n_heads = H,
        .head_dim = D,
        .beta = beta,
        .n_tok = study ? CAPACITY : active,
        .n_active = active,
        .new0 = new0,
        .k = (const float *)s->k.p + new0 * H * D,
        .v = (const float *)s->v.p + new0 * H * D,
    };

    memset(s->map, 0, sizeof s->map);
    if (p->tiers.part)
        KVR_TRY(kvr_tiers_assign(&p->tiers, &ctx, s->dev, &s->state[0], s->map));
    if (p->retention.part)
        KVR_TRY(
            kvr_retention_assign(&p->retention, &ctx, s->dev, &s->state[shared ? 0 : 1], s->map));
    return KVR_OK;
}

static void same_maps(const struct kvr_scheme *p, enum fill fill, double beta, int *differing)
{
    const struct kvr_block_shape shape = { CAPACITY, H, D };
    float *k = floats(elements(&shape)), *v = floats(elements(&shape));
    struct side side[2];

    fill_block(k, &shape, fill, 1);
    fill_block(v, &shape, fill, 2);
    for (int64_t t = 0; t < CAPACITY; t++) /* values vary with frame and position */
        for (int i = 0; i < H * D; i++)
            v[t * H * D + i] *= (float)(1 + t % S * (t / S % 4)) / 7;
    for (int b = 0; b < 2; b++)
        open_side(&side[b], devs[b], k, v);
    for (int64_t done = 0; done < ACTIVE; done += CHUNK) {
        const int64_t active = done + CHUNK < ACTIVE ? done + CHUNK : ACTIVE;

        for (int b = 0; b < 2; b++)
            ck_assert_msg(decide(&side[b], p, active, active - done, beta) == KVR_OK, "%s",
                          kvr_error());
        for (int64_t t = 0; t < CAPACITY; t++) {
            if (side[0].map[t] != side[1].map[t])
                ck_abort_msg("%s, %s, %d tokens: token %d: %d on the CPU, %d on CUDA", p->name,
                             fill_names[fill], (int)active, (int)t, side[0].map[t], side[1].map[t]);
            *differing += side[0].map[t] != side[0].map[0];
        }
    }
    for (int b = 0; b < 2; b++)
        close_side(&side[b]);
    free(k);
    free(v);
}

static struct kvr_scheme *plan_of(int i)
{
    struct kvr_scheme *p;
    char spec[128];

    snprintf(spec, sizeof spec, "%s%s", specs[i / 2], i % 2 ? "@study" : "");
    ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    return p;
}

START_TEST(every_policy)
{
    struct kvr_scheme *p = plan_of(_i);
    int differing = 0;

    for (int f = 0; f < N_FILLS; f++)
        same_maps(p, (enum fill)f, 1, &differing);
    same_maps(p, FILL_NORMAL, 0.6, &differing);
    ck_assert_msg(differing > 0, "%s: all tokens alike: nothing was decided", p->name);
    kvr_scheme_close(&p);
}
END_TEST

/* A policy without CUDA functions, as in a plug-in, receives copies in host memory. */
START_TEST(parts_without_cuda)
{
    struct kvr_scheme *p = plan_of(_i);
    struct kvr_tiers tiers;
    struct kvr_retention retention;
    struct kvr_mem_stats stats;
    int differing = 0;

    if (p->tiers.part) {
        tiers = *p->tiers.part;
        tiers.cuda = false;
        p->tiers.part = &tiers;
    }
    if (p->retention.part) {
        retention = *p->retention.part;
        retention.cuda = false;
        p->retention.part = &retention;
    }
    same_maps(p, FILL_NORMAL, 1, &differing);
    kvr_mem_stats(kvr_dev_host(devs[1]), &stats);
    ck_assert_uint_eq(stats.live_total, 0);
    kvr_scheme_close(&p);
}
END_TEST

/* For every n, the n-th allocation fails, on the device or on its host. The policy must return
 * KVR_ENOMEM and leave no memory allocated. */
START_TEST(memory_runs_out)
{
    struct kvr_scheme *p = plan_of(_i / 2);
    const struct kvr_block_shape shape = { CAPACITY, H, D };
    struct kvr_dev *short_one = _i % 2 ? kvr_dev_host(devs[1]) : devs[1];
    float *x = floats(elements(&shape));
    enum kvr_status st = KVR_ENOMEM;

    fill_block(x, &shape, FILL_NORMAL, 1);
    for (uint64_t fail = 1; st != KVR_OK; fail++) {
        struct side s;

        ck_assert_uint_lt(fail, 9);
        open_side(&s, devs[1], x, x);
        kvr_mem_fail_after(short_one, fail);
        st = decide(&s, p, 2 * CHUNK, CHUNK, 1);
        kvr_mem_fail_after(short_one, 0);
        ck_assert(st == KVR_OK || st == KVR_ENOMEM);
        close_side(&s);
    }
    kvr_scheme_close(&p);
    free(x);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policies on CUDA");
    TCase *tc = tcase_create("policies");
    int failed;

    if (kvr_dev_open(&devs[0], KVR_CPU) != KVR_OK || kvr_dev_open(&devs[1], KVR_CUDA) != KVR_OK) {
        fprintf(stderr, "%s\n", kvr_error());
        return EXIT_FAILURE;
    }
    for (int i = 0; kvr_methods[i]; i++)
        if ((kvr_methods[i]->tiers || kvr_methods[i]->retention) && kvr_methods[i]->study)
            specs[n_specs++] = kvr_methods[i]->name;
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_policy, 0, 2 * n_specs);
    tcase_add_loop_test(tc, parts_without_cuda, 0, 2 * n_specs);
    tcase_add_loop_test(tc, memory_runs_out, 0, 4 * n_specs);
    suite_add_tcase(s, tc);
    failed = run_suite(s);
    kvr_dev_close(&devs[1]); /* asserts that no memory is left allocated */
    kvr_dev_close(&devs[0]);
    return failed;
}
