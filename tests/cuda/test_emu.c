/* test_emu.c - faults that the emulated device must report, results that it must compute, and
 * the effect of its seed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "tests/cuda/faults_hopper.h"

enum { N = FAULT_BLOCKS * FAULT_THREADS, SEEDS = 8 };

static struct kvr_stream *open_stream(uint64_t seed)
{
    struct kvr_stream *s;

    ck_assert_msg(kvr_stream_open(&s) == KVR_OK, "%s", kvr_error());
    kvr_stream_seed(s, seed);
    return s;
}

static void *device(struct kvr_stream *s, const void *host, size_t n)
{
    void *p;

    ck_assert_int_eq(kvr_device_alloc(s, &p, n), KVR_OK);
    ck_assert_int_eq(kvr_device_put(s, p, host, n), KVR_OK);
    return p;
}

START_TEST(fault_is_caught)
{
    const int which = _i / SEEDS;
    const int of_hopper = which - n_faults, of_barrier = of_hopper - n_hopper_faults;
    const int of_cluster = of_barrier - n_barrier_faults;
    const struct fault *fault = of_cluster >= 0   ? &cluster_faults[of_cluster]
                                : of_barrier >= 0 ? &barrier_faults[of_barrier]
                                : of_hopper >= 0  ? &hopper_faults[of_hopper]
                                                  : &faults[which];
    struct kvr_stream *s = open_stream((uint64_t)(_i % SEEDS));
    float x[N] = { 0 }, *d = device(s, x, sizeof x);
    enum kvr_status st;

    fault->commit(s, d);
    st = kvr_stream_sync(s);
    if (!fault->expect) {
        ck_assert_msg(st == KVR_OK, "%s: %s", fault->name, kvr_error());
    } else {
        ck_assert_msg(st == KVR_EINTERNAL, "%s: nothing was noticed", fault->name);
        ck_assert_msg(strstr(kvr_error(), fault->expect) != NULL, "%s: %s", fault->name,
                      kvr_error());
        ck_assert_int_eq(kvr_stream_launches(s, fault->name), 0);
    }
    /* The device is usable after an error. */
    faults[0].commit(s, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "after %s: %s", fault->name, kvr_error());
    ck_assert_int_ge(kvr_stream_launches(s, faults[0].name), 1);
    kvr_stream_close(&s);
}
END_TEST

/* kvr_stream_sync reports the first error since the previous sync. Launches between the error and
 * that sync are skipped. */
START_TEST(errors_stay)
{
    struct kvr_stream *s = open_stream(1);
    float x[N] = { 0 }, *d = device(s, x, sizeof x);

    faults[2].commit(s, d);
    faults[0].commit(s, d);
    ck_assert_int_eq(kvr_stream_sync(s), KVR_EINTERNAL);
    ck_assert_msg(strstr(kvr_error(), faults[2].name) != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_stream_launches(s, faults[0].name), 0);
    ck_assert_int_eq(kvr_stream_sync(s), KVR_OK);
    kvr_stream_close(&s);
}
END_TEST

START_TEST(sums)
{
    struct kvr_stream *s = open_stream((uint64_t)_i);
    float x[N], y[FAULT_BLOCKS] = { 0 }, *dx, *dy;

    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    dx = device(s, x, sizeof x);
    dy = device(s, y, sizeof y);
    fault_sum(s, dx, dy);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, y, dy, sizeof y), KVR_OK);
    for (int b = 0; b < FAULT_BLOCKS; b++)
        ck_assert_float_eq(y[b], (float)(FAULT_THREADS * b * FAULT_THREADS + 63 * 32));
    kvr_stream_close(&s);
}
END_TEST

START_TEST(atomics_add_up)
{
    struct kvr_stream *s = open_stream((uint64_t)_i);
    int out[3] = { 0 }, *d = device(s, out, sizeof out);

    fault_count(s, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, out, d, sizeof out), KVR_OK);
    ck_assert_int_eq(out[0], FAULT_BLOCKS * 22);
    ck_assert_int_eq(out[1], FAULT_BLOCKS * 21);
    ck_assert_int_eq(out[2], FAULT_BLOCKS * 21);
    kvr_stream_close(&s);
}
END_TEST

/* When the emulator's count of executed blocks reaches its maximum, it restarts. The shadow memory
 * must still know which bytes are initialized. */
START_TEST(old_streams_go_on)
{
    struct kvr_stream *s = open_stream(1);
    float x[N] = { 1 }, y[FAULT_BLOCKS], *d = device(s, x, sizeof x), *half, *d_y;

    ck_assert_int_eq(kvr_device_alloc(s, (void **)&half, sizeof x), KVR_OK);
    ck_assert_int_eq(kvr_device_put(s, half, x, sizeof x / 2), KVR_OK);
    ck_assert_int_eq(kvr_device_alloc(s, (void **)&d_y, sizeof y), KVR_OK);
    fault_sum(s, d, d_y);
    fault_age(s);
    faults[0].commit(s, d); /* reverses the floats of each block */
    fault_sum(s, d, d_y);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, y, d_y, sizeof y), KVR_OK);
    ck_assert_float_eq(y[0], 1);
    fault_age(s);
    fault_sum(s, half, d_y);
    ck_assert_int_eq(kvr_stream_sync(s), KVR_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "never written"));
    kvr_stream_close(&s);
}
END_TEST

static void order_of(uint64_t seed, int order[N])
{
    struct kvr_stream *s = open_stream(seed);
    int zero = 0, *next = device(s, &zero, sizeof zero), *d;

    memset(order, 0, N * sizeof *order);
    d = device(s, order, N * sizeof *order);
    fault_order(s, next, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, order, d, N * sizeof *order), KVR_OK);
    kvr_stream_close(&s);
}

/* The seed determines the order of blocks and threads. */
START_TEST(seeds_are_orders)
{
    int a[N], b[N], c[N], seen[N] = { 0 };

    order_of(1, a);
    order_of(1, b);
    order_of(2, c);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert(memcmp(a, c, sizeof a) != 0);
    for (int i = 0; i < N; i++)
        seen[a[i]]++;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], 1);
}
END_TEST

START_TEST(warp_operations)
{
    struct kvr_stream *s = open_stream((uint64_t)_i);
    int out[8 * FAULT_THREADS] = { 0 }, *d = device(s, out, sizeof out);

    fault_warp(s, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, out, d, sizeof out), KVR_OK);
    for (int i = 0; i < FAULT_THREADS; i++) {
        const int lane = i % 32, first = i - lane;
        unsigned thirds = 0, fifths = 0;

        for (int l = 0; l < 32; l++) {
            thirds |= (unsigned)((first + l) % 3 == 0) << l;
            fifths |= (unsigned)((first + l) % 5 == i % 5) << l;
        }
        ck_assert_int_eq(out[i], 10 * (i / 8 * 8 + 3));
        ck_assert_int_eq(out[FAULT_THREADS + i], 10 * (lane < 2 ? i : i - 2));
        ck_assert_int_eq(out[2 * FAULT_THREADS + i], 10 * (i % 16 < 14 ? i + 2 : i));
        ck_assert_int_eq(out[3 * FAULT_THREADS + i], 10 * (i ^ 5));
        ck_assert_uint_eq((unsigned)out[4 * FAULT_THREADS + i], thirds);
        ck_assert_uint_eq((unsigned)out[5 * FAULT_THREADS + i], fifths);
        ck_assert_int_eq(out[6 * FAULT_THREADS + i], 0);
        ck_assert_int_eq(out[7 * FAULT_THREADS + i], first ? 1520 + 1000 : 496 + 5000);
    }
    kvr_stream_close(&s);
}
END_TEST

START_TEST(copies_stay_inside)
{
    struct kvr_stream *s = open_stream(0);
    char x[8] = { 0 }, *d = device(s, x, sizeof x);

    ck_assert_int_eq(kvr_device_put(s, d + 1, x, sizeof x), KVR_EINVAL);
    ck_assert_int_eq(kvr_device_get(s, x, x, sizeof x), KVR_EINVAL);
    kvr_device_free(s, d);
    ck_assert_int_eq(kvr_device_get(s, x, d, sizeof x), KVR_EINVAL);
    kvr_stream_close(&s);
}
END_TEST

/* Returns a small integer, so that sums are exact. */
static int number(int i, int of)
{
    return (i * 37 + i / 64 * 11 + of) % 7 - 3;
}

/* wgmma with K-major and transposed operands, from shared memory and from registers. TMA copies
 * must fill rows past the last token with zeros. The transposed product runs in both blocks of a
 * cluster, whose shared-memory addresses contain the block's rank. */
START_TEST(products_of_a_warp_group)
{
    enum { D = 64, WIDE = 2 * D, ROWS = HOPPER_ROWS, COLUMNS = HOPPER_COLUMNS };
    static kvr_bf16 b[HOPPER_TOKENS * WIDE];
    static float a[ROWS * D], out[3][ROWS * COLUMNS];
    struct kvr_stream *s = open_stream((uint64_t)_i);
    float *d_a, *d_out;
    void *d_b;

    for (int i = 0; i < ROWS * D; i++)
        a[i] = (float)number(i, 1);
    for (int i = 0; i < HOPPER_TOKENS * WIDE; i++)
        b[i] = kvr_f32_to_bf16((float)number(i, 5));
    d_a = device(s, a, sizeof a);
    d_b = device(s, b, sizeof b);
    d_out = device(s, out, sizeof out);
    hopper_sum(s, d_a, d_b, d_out);
    hopper_transposed(s, d_a, d_b, d_out + ROWS * COLUMNS);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, out, d_out, sizeof out), KVR_OK);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int want[2] = { 0, 0 };

            for (int k = 0; k < D; k++) {
                for (int t = c; t < HOPPER_TOKENS; t += COLUMNS)
                    want[0] += number(r * D + k, 1) * number(t * WIDE + D + k, 5);
                want[1] += number(r * D + k, 1) * number(k * WIDE + c, 5);
            }
            for (int i = 0; i < 3; i++)
                ck_assert_msg(out[i][r * COLUMNS + c] == (float)want[i > 0],
                              "%d: [%d,%d] %g, not %d", i, r, c, (double)out[i][r * COLUMNS + c],
                              want[i > 0]);
        }
    kvr_stream_close(&s);
}
END_TEST

/* Tensor maps that cuTensorMapEncodeTiled refuses, and similar ones that it accepts. */
START_TEST(maps_are_refused)
{
    static const struct {
        int at; /* offset of the address from a multiple of 16 */
        int64_t n_tok;
        int n_heads, head_dim, box_tok;
        bool taken;
    } t[] = {
        { 0, 300, 12, 128, 128, true },        { 8, 300, 12, 128, 128, false },
        { 0, 300, 12, 128, 256, true },        { 0, 300, 12, 128, 257, false },
        { 0, 300, 12, 128, 0, false },         { 0, 300, 1, 72, 64, true },
        { 0, 300, 1, 68, 64, false },          { 0, 0, 12, 128, 128, false },
        { 0, 1LL << 32, 12, 128, 64, true },   { 0, (1LL << 32) + 1, 12, 128, 64, false },
        { 0, 300, 0, 128, 64, false },         { 0, 2, 1 << 28, 1 << 10, 64, true },
        { 0, 2, 1 << 29, 1 << 10, 64, false },
    };
    static const char rows[32] __attribute__((aligned(16)));

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        ck_assert_msg(hopper_map(rows + t[i].at, t[i].n_tok, t[i].n_heads, t[i].head_dim,
                                 t[i].box_tok) == t[i].taken,
                      "map %zu", i);
}
END_TEST

/* wgmma on signed and unsigned 8-bit operands, from shared memory and from registers. Sums must be
 * exact, also for the bytes 0x80 and 0xff. */
START_TEST(products_of_bytes)
{
    enum { D = 128, ROWS = HOPPER_ROWS, COLUMNS = HOPPER_COLUMNS };
    static uint8_t a[ROWS * D], b[COLUMNS * D];
    static int32_t out[2][ROWS * COLUMNS];
    struct kvr_stream *s = open_stream((uint64_t)_i);
    void *d_a, *d_b, *d_out;

    for (int i = 0; i < ROWS * D; i++)
        a[i] = (uint8_t)(i / D == 3 ? 0x80 : i / D == 4 ? 0xff : i * 37 + i / D * 11);
    for (int i = 0; i < COLUMNS * D; i++)
        b[i] = (uint8_t)(i / D == 5 ? 0x80 : i / D == 6 ? 0xff : i * 53 + i / D * 7 + 1);
    d_a = device(s, a, sizeof a);
    d_b = device(s, b, sizeof b);
    d_out = device(s, out, sizeof out);
    hopper_bytes(s, d_a, d_b, d_out);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, out, d_out, sizeof out), KVR_OK);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int32_t want[2] = { 0, 0 };

            for (int k = 0; k < D; k++) {
                const uint8_t x = a[r * D + k], y = b[c * D + k];

                want[0] += (int8_t)x * (int8_t)y;
                want[1] += x * y * (k < 32 ? 2 : 1);
            }
            for (int i = 0; i < 2; i++)
                ck_assert_msg(out[i][r * COLUMNS + c] == want[i], "%d: [%d,%d] %d, not %d", i, r, c,
                              out[i][r * COLUMNS + c], want[i]);
        }
    kvr_stream_close(&s);
}
END_TEST

/* Blocks of a cluster exchange numbers, in any order of execution. */
START_TEST(blocks_exchange)
{
    struct kvr_stream *s = open_stream((uint64_t)_i);
    float x[N] = { 0 }, *d = device(s, x, sizeof x);

    cluster_exchange(s, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, x, d, sizeof x), KVR_OK);
    for (int i = 0; i < N; i++) {
        int want = 0;

        for (int r = 0; r < 3; r++)
            want +=
                cluster_number(r, i / FAULT_THREADS % 2 ^ 1, FAULT_THREADS - 1 - i % FAULT_THREADS);
        ck_assert_float_eq(x[i], (float)want);
    }
    cluster_give(s, d);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, x, d, sizeof x), KVR_OK);
    /* x[i] = thread + FAULT_THREADS * rank, with two ranks per cluster. */
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(x[i], (float)(i % (2 * FAULT_THREADS)));
    kvr_stream_close(&s);
}
END_TEST

/* wgmma on two tiles in the shared memory of a cluster's two blocks. Each block stores half of the
 * first tile to both blocks; one block sends the second tile to both by TMA multicast. */
START_TEST(products_of_a_cluster)
{
    enum { D = 64, WIDE = 2 * D, ROWS = HOPPER_ROWS, COLUMNS = HOPPER_COLUMNS };
    static kvr_bf16 b[HOPPER_TOKENS * WIDE];
    static float a[ROWS * D], out[2][ROWS * COLUMNS];
    struct kvr_stream *s = open_stream((uint64_t)_i);
    void *d_a, *d_b, *d_out;

    for (int i = 0; i < ROWS * D; i++)
        a[i] = (float)number(i, 1);
    for (int i = 0; i < HOPPER_TOKENS * WIDE; i++)
        b[i] = kvr_f32_to_bf16((float)number(i, 5));
    d_a = device(s, a, sizeof a);
    d_b = device(s, b, sizeof b);
    d_out = device(s, out, sizeof out);
    cluster_product(s, d_a, d_b, d_out);
    ck_assert_msg(kvr_stream_sync(s) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(s, out, d_out, sizeof out), KVR_OK);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int want = 0;

            for (int k = 0; k < D; k++)
                for (int t = c; t < 2 * COLUMNS; t += COLUMNS)
                    want += number(r * D + k, 1) * number(t * WIDE + D + k, 5);
            for (int i = 0; i < 2; i++)
                ck_assert_msg(out[i][r * COLUMNS + c] == (float)want, "%d: [%d,%d] %g, not %d", i,
                              r, c, (double)out[i][r * COLUMNS + c], want);
        }
    kvr_stream_close(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emulated device");
    TCase *tc = tcase_create("emulated device");
    SRunner *sr = srunner_create(s);
    int failed;

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, fault_is_caught, 0,
                        (n_faults + n_hopper_faults + n_barrier_faults + n_cluster_faults) * SEEDS);
    tcase_add_test(tc, errors_stay);
    tcase_add_loop_test(tc, sums, 0, SEEDS);
    tcase_add_loop_test(tc, atomics_add_up, 0, SEEDS);
    tcase_add_test(tc, old_streams_go_on);
    tcase_add_test(tc, seeds_are_orders);
    tcase_add_loop_test(tc, warp_operations, 0, SEEDS);
    tcase_add_test(tc, copies_stay_inside);
    tcase_add_loop_test(tc, products_of_a_warp_group, 0, SEEDS);
    tcase_add_test(tc, maps_are_refused);
    tcase_add_loop_test(tc, products_of_bytes, 0, SEEDS);
    tcase_add_loop_test(tc, blocks_exchange, 0, SEEDS);
    tcase_add_loop_test(tc, products_of_a_cluster, 0, SEEDS);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
