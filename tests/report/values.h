/* values.h - short constructors of table values, and a small database for the tests of tables and
 * plots. */
#ifndef TESTS_REPORT_VALUES_H
#define TESTS_REPORT_VALUES_H

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/rows.h"

static inline struct kvr_value text(const char *s)
{
    return (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) };
}

static inline struct kvr_value real(double r)
{
    return (struct kvr_value){ .type = KVR_VALUE_REAL, .r = r };
}

static inline struct kvr_value integer(int64_t i)
{
    return (struct kvr_value){ .type = KVR_VALUE_INT, .i = i };
}

static inline struct kvr_value null(void)
{
    return (struct kvr_value){ .type = KVR_VALUE_NULL };
}

/* Removes a database and the files that SQLite keeps next to it. */
static inline void remove_store(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };
    char name[256];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

/* Creates a database with five cells: two of the method BF16, two of RTN_INT4, and one of RTN_INT2,
 * whose outcome is a timeout. */
static inline void fill_store(const char *path)
{
    static const struct {
        const char *key, *method, *family, *prompt;
        enum kvr_outcome outcome;
        int64_t nominal;
        double psnr, ssim;
    } cells[] = {
        { "b0", "BF16", "BF16", "p0", KVR_OUT_OK, 1600, 100.0, 1.0 },
        { "b1", "BF16", "BF16", "p1", KVR_OUT_OK, 1600, 100.0, 1.0 },
        { "q0", "RTN_INT4", "RTN", "p0", KVR_OUT_OK, 500, 28.0, 0.75 },
        { "q1", "RTN_INT4", "RTN", "p1", KVR_OUT_OK, 500, 30.0, 0.5 },
        { "t0", "RTN_INT2", "RTN", "p0", KVR_OUT_TIMEOUT, 0, 0, 0 },
    };
    char *const argv[] = { (char[]){ "kvreel" }, NULL };
    struct kvr_session session;
    struct kvr_store *s;

    ck_assert_msg(kvr_store_open(&s, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_session_gather(&session, 1, argv, "x.yaml", "", 1), KVR_OK);
    ck_assert_msg(kvr_store_session(s, &session) == KVR_OK, "%s", kvr_error());
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        bool ok = cells[i].outcome == KVR_OUT_OK;
        const struct kvr_row_metric metrics[] = {
            { .name = "psnr", .unit = "dB", .value = cells[i].psnr, .n = 42, .extra = 0 },
            { .name = "ssim", .unit = "1", .value = cells[i].ssim, .n = 42, .extra = 0 },
        };
        struct kvr_row row = example_row(cells[i].key, session.id, cells[i].outcome);

        row.baseline = cells[i].prompt[1] == '0' ? "b0" : "b1";
        row.is_baseline = cells[i].key[0] == 'b';
        row.spec = "{\"backend\":\"cpu\",\"evict\":false,\"frames\":42,\"kind\":\"bench\","
                   "\"path\":\"staged\",\"seed\":1,\"sink\":0,\"threads\":1,\"window\":21}";
        row.method = row.name = cells[i].method;
        row.family = cells[i].family;
        row.suite = "demo";
        row.prompt_id = cells[i].prompt;
        row.prompt = "a red disc";
        row.reason = ok ? "" : "longer than 5 s";
        row.wall_ns = 2000000000;
        row.bf16_bytes = 1600;
        row.nominal_bytes = row.resident_bytes = cells[i].nominal;
        row.peak_bytes = 1 << 20;
        row.n_metrics = ok ? 2 : 0;
        row.metric = metrics;
        ck_assert_msg(kvr_store_put(s, &row) == KVR_OK, "%s: %s", row.key, kvr_error());
    }
    kvr_session_free(&session);
    kvr_store_close(&s);
}

#endif
