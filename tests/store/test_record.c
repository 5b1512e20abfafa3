/* test_record.c - writes structs to JSON, as rows under named columns, and reads them back. The
 * columns may have any order. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/store/record.h"

static const struct kvr_row_pass passes[] = {
    { .chunk = 1,
      .pass = 2,
      .t_ns = 1LL << 40,
      .tokens = 4,
      .bf16 = 5,
      .nominal = 6,
      .resident = 7,
      .resident_kv = 8,
      .live_total = 9,
      .by_tag = { 10, 11, 12, 13, 14, 15 } },
    { .chunk = 2,
      .pass = 3,
      .has_phases = true,
      .encode_ns = 1,
      .decode_ns = 2,
      .attend_ns = 3,
      .linear_ns = 4,
      .cross_ns = 5,
      .other_ns = 6 },
};

static void same_pass(const struct kvr_row_pass *a, const struct kvr_row_pass *b)
{
    for (const struct kvr_field *f = kvr_fields; f->column; f++) {
        struct kvr_value x, y;

        if (f->record != KVR_RECORD_pass)
            continue;
        x = kvr_field_value(f, a);
        y = kvr_field_value(f, b);
        ck_assert_msg(x.type == y.type && x.i == y.i, "%s: %lld, %lld", f->column, (long long)x.i,
                      (long long)y.i);
    }
}

START_TEST(passes_come_back)
{
    json_t *list = kvr_records_json(KVR_RECORD_pass, passes, 2);
    struct kvr_row_pass *back;
    int n;

    ck_assert_int_eq(kvr_records_read(KVR_RECORD_pass, list, "t", (void **)&back, &n), KVR_OK);
    ck_assert_int_eq(n, 2);
    same_pass(&passes[0], &back[0]);
    same_pass(&passes[1], &back[1]);
    ck_assert(!back[0].has_phases && back[1].has_phases);
    free(back);
    json_decref(list);
}
END_TEST

/* The reader finds columns by name. If it used positions, it would read `head` as `layer` here. */
START_TEST(names_count_and_not_places)
{
    static const char text[] =
        "{\"columns\": [\"n\", \"head\", \"layer\", \"new\", \"step\", \"chunk\", \"age\", "
        "\"value\", \"name\"], \"rows\": [[9, 2, 1, \"x\", null, null, 4, 0.5, \"jsd\"]]}";
    json_t *list = json_loads(text, 0, NULL);
    struct kvr_row_probe *p;
    int n;

    ck_assert_int_eq(kvr_records_read(KVR_RECORD_probe, list, "t", (void **)&p, &n), KVR_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_str_eq(p->name, "jsd");
    ck_assert(p->layer == 1 && p->head == 2 && p->step == -1 && p->age == 4 && p->n == 9);
    ck_assert(p->value == 0.5);
    free(p);
    json_decref(list);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    { "{\"columns\": [\"kind\", \"round\"], \"rows\": []}", "no column 'ns'" },
    { "{\"columns\": [\"kind\", \"round\", \"ns\"], \"rows\": [[1, 2, 3]]}",
      "value of 'kind': need a string" },
    { "{\"columns\": [\"kind\", \"round\", \"ns\"], \"rows\": [[\"a\", 2]]}",
      "value of 'ns': need a whole number" },
    { "{\"columns\": [\"kind\", \"round\", \"ns\"], \"rows\": [[\"a\", 1e30, 3]]}",
      "value of 'round': need a whole number" },
    { "[]", "expected object" },
};

START_TEST(what_is_not_a_list_is_refused)
{
    json_t *list = json_loads(bad[_i].text, 0, NULL);
    void *items;
    int n;

    ck_assert_int_eq(kvr_records_read(KVR_RECORD_sample, list, "t", &items, &n), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), bad[_i].says) != NULL, "%s", kvr_error());
    ck_assert_ptr_null(items);
    json_decref(list);
}
END_TEST

START_TEST(metrics_come_back)
{
    static const double series[] = { 1.5, NAN, 3 };
    const struct kvr_row_metric in[] = {
        { .name = "psnr",
          .unit = "dB",
          .value = 30.25,
          .n = 3,
          .extra = NAN,
          .n_series = 3,
          .series = series },
        { .name = "lpips", .unit = "1", .value = NAN, .extra = NAN, .missing = "no weights" },
    };
    json_t *list = json_array();
    struct kvr_row_metric *out;
    int n;

    for (int i = 0; i < 2; i++)
        json_array_append_new(list, kvr_metric_json(&in[i]));
    ck_assert_int_eq(kvr_metrics_read(list, "t", &out, &n), KVR_OK);
    ck_assert_int_eq(n, 2);
    ck_assert(out[0].value == 30.25 && isnan(out[0].extra) && !out[0].missing);
    ck_assert(out[0].n_series == 3 && out[0].series[0] == 1.5 && isnan(out[0].series[1]));
    ck_assert_str_eq(out[1].missing, "no weights");
    kvr_metrics_free(out, n);
    json_array_append_new(list, kvr_metric_json(&in[0]));
    ck_assert_int_eq(kvr_metrics_read(list, "t", &out, &n), KVR_EFORMAT);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "two metrics have the name psnr"));
    json_decref(list);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record");
    TCase *tc = tcase_create("record");
    SRunner *r;
    int failed;

    tcase_add_test(tc, passes_come_back);
    tcase_add_test(tc, names_count_and_not_places);
    tcase_add_loop_test(tc, what_is_not_a_list_is_refused, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(tc, metrics_come_back);
    suite_add_tcase(s, tc);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
