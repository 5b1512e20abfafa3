/* test_head_classes.c - classes of attention heads: how heads are classified, and which tokens
 * each class keeps. */
#include <check.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { S = 6, F = 3, H = 3, D = 8, CHUNK = S * F, CHUNKS = 4, TOKENS = CHUNK * CHUNKS, W = H * D };

/* A layer and its inputs; held[h][t] says whether head h holds token t. store() takes the
 * attention weights as sums [TOKENS,H], or NULL if there are none. */
struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer_scratch scratch;
    struct kvr_layer layer;
    float k[TOKENS * W];
    bool held[H][TOKENS];
};

static void look(struct kit *t)
{
    memset(t->held, 0, sizeof t->held);
    for (int i = 0; i < t->layer.n; i++)
        for (int h = 0; h < H; h++)
            for (int64_t j = 0; j < t->layer.seg[i].n_tok; j++)
                if (kvr_segment_has_head(&t->layer.seg[i], h))
                    t->held[h][kvr_segment_token(&t->layer.seg[i], j)] = true;
}

static void open_kit(struct kit *t, const char *method, const struct kvr_setting *set, int n)
{
    const struct kvr_layer_geometry geo = { .n_layers = 1,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    memset(t, 0, sizeof *t);
    kvr_normal(t->k, TOKENS * W, 5, KVR_RNG_TEST, 1, 0, 0);
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, method, set, n) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, &geo, &t->scratch, false),
                     KVR_OK);
}

static enum kvr_status store(struct kit *t, int chunk, const float *sums)
{
    const struct kvr_columns columns = { 1, sums, sums };

    t->layer.columns = sums ? &columns : NULL;
    KVR_TRY(kvr_layer_commit(&t->layer, t->k + chunk * CHUNK * W, t->k + chunk * CHUNK * W,
                             chunk * CHUNK, CHUNK));
    t->layer.columns = NULL;
    look(t);
    return KVR_OK;
}

static void close_kit(struct kit *t)
{
    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
}

/* Writes attention weights to sums [TOKENS,H]. Head 0 attends to the newest frame, head 1 to the
 * middle frames, head 2 to the first frame. */
static void fill_sums(float *sums)
{
    for (int t = 0; t < TOKENS; t++) {
        sums[t * H] = t >= CHUNK - S ? 1 : 0;
        sums[t * H + 1] = t >= S && t < CHUNK - S ? 1 : 0.01f;
        sums[t * H + 2] = t < S ? 1 : 0.001f;
    }
}

static int frames_held(const struct kit *t, int h, int first, int n)
{
    int count = 0;

    for (int i = first * S; i < (first + n) * S; i++)
        count += t->held[h][i];
    return count;
}

START_TEST(forcing)
{
    static float sums[TOKENS * H];
    static struct kit t;

    fill_sums(sums);
    open_kit(&t, "FORCING_KV", NULL, 0);
    ck_assert_int_eq(store(&t, 0, sums), KVR_OK);
    /* The first chunk has no past to classify heads by, so it is stored whole. */
    for (int h = 0; h < H; h++)
        ck_assert_int_eq(frames_held(&t, h, 0, F), CHUNK);
    ck_assert_int_eq(store(&t, 1, sums), KVR_OK);
    /* Heads 0 and 2 put their weight on the sink or on near frames, so they are static. Head 1 is
     * dynamic. Besides the sink and the newest frame, it keeps a third of the runs of positions in
     * frames 2 to 4. A run has one token here, so head 1 keeps 6 of 18. */
    ck_assert_int_eq(frames_held(&t, 0, 0, 6), 2 * S);
    ck_assert_int_eq(frames_held(&t, 0, 0, 1), S);
    ck_assert_int_eq(frames_held(&t, 0, 5, 1), S);
    ck_assert_int_eq(frames_held(&t, 1, 0, 1), S);
    ck_assert_int_eq(frames_held(&t, 1, 5, 1), S);
    ck_assert_int_eq(frames_held(&t, 1, 1, 1), 0);
    ck_assert_int_eq(frames_held(&t, 1, 2, 3), 6); /* 6 runs of one token */
    ck_assert_int_eq(frames_held(&t, 2, 0, 6), 2 * S);
    /* Classes do not change with later attention weights. */
    memset(sums, 0, sizeof sums);
    ck_assert_int_eq(store(&t, 2, sums), KVR_OK);
    ck_assert_int_eq(frames_held(&t, 0, 0, 9), 2 * S);
    ck_assert_int_eq(frames_held(&t, 1, 0, 9), 3 * S);
    close_kit(&t);
}
END_TEST

/* The cache collects attention weights until heads are classified, which happens at the second
 * chunk. It collects them again if that chunk is stored again. */
START_TEST(attention_is_observed_until_classes_are_fixed)
{
    static const char *const methods[] = { "FORCING_KV", "DUMMY_FORCING" };
    struct kvr_thin_needs needs;
    float sums[TOKENS * H];
    struct kit t;

    for (int i = 0; i < TOKENS * H; i++)
        sums[i] = 1;
    for (int m = 0; m < 2; m++) {
        const struct kvr_retention_use *u;

        open_kit(&t, methods[m], NULL, 0);
        u = &t.scheme->retention;
        ck_assert(!kvr_retention_observes(u, &t.layer.state[1], 0));
        ck_assert_int_eq(store(&t, 0, NULL), KVR_OK);
        ck_assert(kvr_retention_observes(u, &t.layer.state[1], CHUNK));
        ck_assert_int_eq(store(&t, 1, sums), KVR_OK);
        ck_assert(kvr_retention_observes(u, &t.layer.state[1], CHUNK));
        ck_assert(!kvr_retention_observes(u, &t.layer.state[1], 2 * CHUNK));
        ck_assert_int_eq(store(&t, 2, NULL), KVR_OK); /* uses the known classes */
        ck_assert(!kvr_retention_observes(u, &t.layer.state[1], 3 * CHUNK));
        /* FORCING_KV requests the keys of the new chunk and of the frame before it. DUMMY_FORCING
         * requests no keys. */
        ck_assert(kvr_retention_thins(u, &needs));
        ck_assert_int_eq(needs.all_keys, m == 0);
        ck_assert_int_eq(kvr_thin_key0(&needs, 2 * CHUNK, S), 2 * CHUNK - S);
        ck_assert_int_eq(kvr_thin_key0(&needs, 0, S), 0);
        close_kit(&t);
    }
}
END_TEST

START_TEST(changing_runs_are_kept)
{
    static float sums[TOKENS * H];
    static struct kit t;

    fill_sums(sums);
    open_kit(&t, "FORCING_KV", NULL, 0);
    /* At positions 0 to 3, frames 2 to 5 have equal keys. A dynamic head keeps the positions whose
     * keys change between frames, 4 and 5. */
    for (int f = 2; f < 5; f++)
        memcpy(t.k + (f + 1) * S * W, t.k + 2 * S * W, 4 * W * sizeof(float));
    ck_assert_int_eq(store(&t, 0, sums), KVR_OK);
    ck_assert_int_eq(store(&t, 1, sums), KVR_OK);
    for (int f = 2; f < 5; f++) {
        for (int s = 0; s < 4; s++)
            ck_assert(!t.held[1][f * S + s]);
        ck_assert(t.held[1][f * S + 4] && t.held[1][f * S + 5]);
    }
    close_kit(&t);
}
END_TEST

START_TEST(dummy)
{
    const struct kvr_setting third = { "dummy", "0.34" };
    static float sums[TOKENS * H];
    static struct kit t;

    fill_sums(sums);
    /* Head 0 attends to the current chunk alone, which makes it a dummy head. */
    for (int i = 0; i < TOKENS; i++)
        sums[i * H] = i >= CHUNK ? 1 : 0;
    open_kit(&t, "DUMMY_FORCING", &third, 1);
    ck_assert_int_eq(store(&t, 0, sums), KVR_OK);
    ck_assert_int_eq(store(&t, 1, sums), KVR_OK);
    /* A dummy head keeps the newest frame. */
    ck_assert_int_eq(frames_held(&t, 0, 0, 6), S);
    ck_assert_int_eq(frames_held(&t, 0, 5, 1), S);
    /* Head 1 keeps the newest chunk. */
    ck_assert_int_eq(frames_held(&t, 1, 0, 6), 3 * S);
    ck_assert_int_eq(frames_held(&t, 1, 3, 3), 3 * S);
    /* Head 2 keeps the first frame. */
    ck_assert_int_eq(frames_held(&t, 2, 0, 6), S);
    ck_assert_int_eq(frames_held(&t, 2, 0, 1), S);
    close_kit(&t);
}
END_TEST

static void write_map(char *path, const char *text)
{
    int fd;

    strcpy(path, "/tmp/kvreel-test-heads-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(a_map)
{
    static struct kit t;
    char path[64];
    struct kvr_setting map = { "map", path };

    write_map(path, "# of one layer\ns d s  # layer 0\n");
    open_kit(&t, "FORCING_KV", &map, 1);
    ck_assert_int_eq(store(&t, 0, NULL), KVR_OK);
    ck_assert_msg(store(&t, 1, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(frames_held(&t, 0, 0, 6), 2 * S);
    ck_assert_int_eq(frames_held(&t, 1, 0, 6), 3 * S);
    close_kit(&t);
    unlink(path);
}
END_TEST

static const struct {
    const char *text, *why;
} bad_maps[] = {
    { "sd\n", ":1: need 3 letters" },
    { "sdx\n", ":1: need 3 letters" },
    { "sdsd\n", ":1: need 3 letters" },
    { "sds\nsds\n", "2 lines of head classes, but the model has 1" },
    { "", "0 lines of head classes" },
};

START_TEST(invalid_maps_are_refused)
{
    static struct kit t;
    char path[64];
    struct kvr_setting map = { "map", path };

    write_map(path, bad_maps[_i].text);
    open_kit(&t, "FORCING_KV", &map, 1);
    ck_assert_int_eq(store(&t, 0, NULL), KVR_OK);
    ck_assert_int_eq(store(&t, 1, NULL), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), bad_maps[_i].why) != NULL, "%s", kvr_error());
    /* The failed commit of the second chunk leaves the first chunk unchanged. */
    for (int h = 0; h < H; h++)
        ck_assert_int_eq(frames_held(&t, h, 0, F), CHUNK);
    close_kit(&t);
    unlink(path);
    open_kit(&t, "FORCING_KV", &map, 1);
    ck_assert_int_eq(store(&t, 0, NULL), KVR_OK);
    ck_assert_int_eq(store(&t, 1, NULL), KVR_ENOTFOUND);
    close_kit(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("head classes");
    TCase *tc = tcase_create("head classes");

    omp_set_num_threads(1);
    tcase_add_test(tc, forcing);
    tcase_add_test(tc, attention_is_observed_until_classes_are_fixed);
    tcase_add_test(tc, changing_runs_are_kept);
    tcase_add_test(tc, dummy);
    tcase_add_test(tc, a_map);
    tcase_add_loop_test(tc, invalid_maps_are_refused, 0, (int)(sizeof bad_maps / sizeof *bad_maps));
    suite_add_tcase(s, tc);
    return run_suite(s);
}
