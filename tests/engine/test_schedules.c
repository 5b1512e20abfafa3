/* test_schedules.c - compares named schedules with values that the original programs compute. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/engine/sampler.h"
#include "harness/plan/config.h"
#include "harness/plan/sweep.h"
#include "tests/suite.h"

#define FIXTURE "tests/fixtures/wan_real/schedules.json"

static const struct kvr_model_config model = {
    .timestep_shift = 3, .n_steps = 2, .steps = { 900, 100 }, .timesteps = KVR_TIMESTEPS_WARPED
};

static json_t *fixture(const char *name)
{
    json_t *root = NULL, *s;

    ck_assert_msg(kvr_json_load(&root, FIXTURE) == KVR_OK, "%s", kvr_error());
    s = json_incref(json_object_get(json_object_get(root, "schedules"), name));
    ck_assert_ptr_nonnull(s);
    json_decref(root);
    return s;
}

static double number(const json_t *o, const char *key)
{
    ck_assert_msg(json_is_number(json_object_get(o, key)), "%s", key);
    return json_number_value(json_object_get(o, key));
}

static void choose(struct kvr_schedule *s, const char *name)
{
    struct kvr_model_config c = model;

    ck_assert_msg(kvr_schedule_choose(&c, name) == KVR_OK, "%s", kvr_error());
    kvr_schedule_make(s, &c);
}

static const struct {
    const char *name, *fixture;
} warped[] = { { "self-forcing", "self_forcing" },
               { "self-forcing-unwarped", "self_forcing_unwarped" },
               { "flashdreams", "flashdreams" } };

/* The recorded values are float32 with 10 digits. kvreel rounds in another order than the original
 * programs, which changes a sigma by up to 2e-7 and a timestep by up to 2e-4. */
START_TEST(as_recorded)
{
    json_t *want = fixture(warped[_i].fixture), *steps = json_object_get(want, "steps");
    struct kvr_schedule s;

    choose(&s, warped[_i].name);
    ck_assert_uint_eq((size_t)s.n_steps, json_array_size(steps));
    for (int i = 0; i < s.n_steps; i++) {
        const json_t *step = json_array_get(steps, (size_t)i);

        ck_assert(fabs(s.timestep[i] - number(step, "timestep")) <= 2e-4);
        ck_assert(fabs(s.sigma[i] - number(step, "sigma")) <= 2e-7);
        ck_assert(s.renoise[i] == s.sigma[i]);
        ck_assert_int_eq(kvr_schedule_index(&s, s.timestep[i]), (int)number(step, "table_index"));
    }
    ck_assert(fabs(kvr_schedule_sigma(&s, 0) -
                   number(json_object_get(want, "context_pass"), "sigma")) <= 2e-7);
    json_decref(want);
}
END_TEST

START_TEST(bf16_rounds_what_flashdreams_is_given)
{
    json_t *want = fixture("flashdreams"), *steps = json_object_get(want, "steps");
    struct kvr_model_config c = model;
    struct kvr_schedule s;

    ck_assert_int_eq(kvr_schedule_choose(&c, "flashdreams"), KVR_OK);
    ck_assert(c.rounded_timesteps);
    kvr_schedule_make(&s, &c);
    kvr_schedule_round(&s);
    for (int i = 0; i < s.n_steps; i++)
        ck_assert(s.timestep[i] ==
                  (float)number(json_array_get(steps, (size_t)i), "timestep_as_bf16"));
    c = model;
    ck_assert_int_eq(kvr_schedule_choose(&c, "self-forcing"), KVR_OK);
    ck_assert(!c.rounded_timesteps);
    json_decref(want);
}
END_TEST

START_TEST(lightx2v)
{
    json_t *want = fixture("lightx2v"), *steps = json_object_get(want, "steps");
    struct kvr_schedule s;

    choose(&s, "lightx2v");
    ck_assert_int_eq(s.n_steps, 4);
    for (int i = 0; i < s.n_steps; i++) {
        const json_t *step = json_array_get(steps, (size_t)i);
        const int index = (int)number(step, "index");

        ck_assert(s.timestep[i] == (float)number(step, "timestep_given_to_the_model"));
        ck_assert(fabs(s.table_sigma[index] - number(step, "sigma_at_index")) <= 2e-7);
        ck_assert(fabs(s.sigma[i] - number(step, "sigma_used_for_x0")) <= 2e-7);
        if (i > 0)
            ck_assert(fabs(s.renoise[i] - number(step, "sigma_used_for_renoise_to_this_step")) <=
                      2e-7);
    }
    ck_assert(s.sigma[2] != s.renoise[2] && s.sigma[1] != s.renoise[1]);
    json_decref(want);
}
END_TEST

START_TEST(a_list)
{
    struct kvr_schedule list, named;

    choose(&list, "5:1000-750-500-250");
    choose(&named, "self-forcing");
    ck_assert(memcmp(list.timestep, named.timestep, 4 * sizeof *list.timestep) == 0);
    ck_assert(memcmp(list.sigma, named.sigma, 4 * sizeof *list.sigma) == 0);
    choose(&list, "1000-500"); /* the model's shift of 3 maps u = 1/2 to sigma = 1.5 / 2 */
    ck_assert_int_eq(list.n_steps, 2);
    ck_assert(fabs(list.sigma[1] - 0.75) <= 2e-7);
    choose(&list, "model");
    ck_assert_int_eq(list.n_steps, 2);
    ck_assert(fabs(list.timestep[0] - 1000 * 2.7 / 2.8) <= 2e-4);
}
END_TEST

START_TEST(what_is_no_list)
{
    static const char *const wrong[] = { "",          "0",        "1001",     "1000-",    "500-750",
                                         "500-500",   "-500",     "1000,500", "5.0:1000", ":1000",
                                         "0:1000",    "5:",       "1e1:1000", "+5:1000",  " 1000",
                                         "1000-0250", "nan:1000", "1000-500x" };
    struct kvr_model_config c = model;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(!kvr_schedule_is_list(wrong[i]), "'%s'", wrong[i]);
        ck_assert_int_eq(kvr_schedule_choose(&c, wrong[i]), KVR_EINVAL);
    }
    ck_assert(kvr_schedule_is_list("1000"));
    ck_assert(kvr_schedule_is_list("2.5:999-1"));
    c.is_lm = true;
    ck_assert_int_eq(kvr_schedule_choose(&c, "lightx2v"), KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_schedule_choose(&c, "model"), KVR_OK);
}
END_TEST

/* --- in a sweep ------------------------------------------------------------------------- */

static enum kvr_status make(struct kvr_config *c, struct kvr_sweep *s, const char *schedule,
                            const struct kvr_model_config *nano)
{
    const struct kvr_model_facts facts = { .name = "nano", .sha256 = "00", .config = nano };
    const char *const overrides[] = { schedule, NULL };
    enum kvr_status st = kvr_config_read_text(
        c,
        "model: nano\n"
        "prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]\n"
        "methods: [BF16]\nframes: 6\nseed: 5\n",
        "a.yaml", schedule ? overrides : NULL);

    memset(s, 0, sizeof *s);
    return st == KVR_OK ? kvr_sweep_make(s, c, &facts, 1) : st;
}

START_TEST(in_a_sweep)
{
    struct kvr_model_config nano;
    struct kvr_config c, plain;
    struct kvr_sweep s, p;

    ck_assert_int_eq(kvr_model_config_read(&nano, "models/nano/config.json"), KVR_OK);
    ck_assert_int_eq(make(&plain, &p, NULL, &nano), KVR_OK);
    ck_assert_msg(make(&c, &s, "schedule=[model, lightx2v, 8:1000-500, 1000-500]", &nano) == KVR_OK,
                  "%s", kvr_error());
    ck_assert_int_eq(s.n_cells, 4);
    ck_assert_str_eq(s.cell[0].key, p.cell[0].key);
    ck_assert_str_eq(s.cell[1].set.schedule, "lightx2v");
    ck_assert_str_eq(s.cell[2].set.schedule, "8:1000-500");
    for (int i = 1; i < 4; i++)
        ck_assert_str_ne(s.cell[i].group, s.cell[i - 1].group);
    ck_assert_ptr_nonnull(strstr(s.cell[2].spec, "\"schedule\":\"8:1000-500\""));
    /* two steps and a clean pass cost less than four steps and a clean pass */
    ck_assert(s.cell[2].cost < s.cell[1].cost);
    kvr_sweep_free(&s);
    kvr_config_free(&c);
    ck_assert_int_eq(make(&c, &s, "schedule=[1000-500, 1000-500]", &nano), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "twice"));
    ck_assert_int_eq(make(&c, &s, "schedule=lightx2w", &nano), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "lightx2v"));
    kvr_sweep_free(&p);
    kvr_config_free(&plain);
    kvr_model_config_free(&nano);
}
END_TEST

/* Another schedule gives another video. */
START_TEST(it_reaches_the_sampler)
{
    static const char *const names[] = { NULL, "model", "lightx2v", "1000-500" };
    const int64_t n = 3 * 3 * 48 * 48;
    uint64_t seed = 7;
    float *x[4];

    for (int i = 0; i < 4; i++) {
        const struct kvr_model_use use = { .schedule = names[i] };
        struct kvr_cache_shape shape;
        struct kvr_scheme *bf16;
        struct kvr_cache *cache;
        struct kvr_model *m;
        struct kvr_dev *dev;
        struct kvr_dit *d;
        const struct kvr_model_config *c;
        float *P;

        ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
        ck_assert_msg(kvr_model_open_as(&m, dev, "models/nano", &use) == KVR_OK, "%s", kvr_error());
        c = kvr_model_config(m);
        ck_assert_int_eq(c->n_steps, i == 3 ? 2 : 4);
        ck_assert_int_le(3 * kvr_model_frame_elems(m), n);
        shape = (struct kvr_cache_shape){ .n_layers = c->n_layers,
                                          .n_heads = c->n_heads,
                                          .head_dim = kvr_model_head_dim(m),
                                          .tokens_per_frame = kvr_model_tokens_per_frame(m),
                                          .frames_per_chunk = c->frames_per_chunk,
                                          .capacity_frames = 3,
                                          .exact = KVR_BF16 };
        P = calloc((size_t)c->text_len * (size_t)c->text_dim, sizeof *P);
        x[i] = calloc((size_t)n, sizeof *x[i]);
        ck_assert_int_eq(kvr_scheme_open(&bf16, "BF16", NULL, 0), KVR_OK);
        ck_assert_int_eq(kvr_cache_open(&cache, dev, bf16, &shape, KVR_PATH_STAGED), KVR_OK);
        ck_assert_int_eq(kvr_dit_open(&d, dev, m), KVR_OK);
        ck_assert_int_eq(kvr_dit_set_prompt(d, P), KVR_OK);
        ck_assert_msg(kvr_sample(d, cache, 3, kvr_noise_philox, &seed, NULL, x[i]) == KVR_OK, "%s",
                      kvr_error());
        kvr_dit_close(&d);
        kvr_cache_close(&cache);
        kvr_scheme_close(&bf16);
        kvr_model_close(&m);
        kvr_dev_close(&dev);
        free(P);
    }
    ck_assert(memcmp(x[0], x[1], (size_t)n * sizeof **x) == 0);
    ck_assert(memcmp(x[0], x[2], (size_t)n * sizeof **x) != 0);
    ck_assert(memcmp(x[0], x[3], (size_t)n * sizeof **x) != 0);
    for (int i = 0; i < 4; i++)
        free(x[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("schedules");
    TCase *tc = tcase_create("schedules");

    tcase_set_timeout(tc, 0);
    tcase_add_loop_test(tc, as_recorded, 0, sizeof warped / sizeof *warped);
    tcase_add_test(tc, bf16_rounds_what_flashdreams_is_given);
    tcase_add_test(tc, lightx2v);
    tcase_add_test(tc, a_list);
    tcase_add_test(tc, what_is_no_list);
    tcase_add_test(tc, in_a_sweep);
    tcase_add_test(tc, it_reaches_the_sampler);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
