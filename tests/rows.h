/* rows.h - a valid session and a valid cell for the results database; tests change only the fields
 * that they check.
 *
 *     struct kvr_row r = example_row("k1", "s0", KVR_OUT_OK);
 *     r.method = r.name = "RTN_INT2";
 *     ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK); */
#ifndef TESTS_ROWS_H
#define TESTS_ROWS_H

#include "harness/store/store.h"

/* JSON spec of the example cell, from which the database fills its setting columns. */
#define EXAMPLE_SPEC                                                                               \
    "{\"backend\":\"cpu\",\"evict\":false,\"frames\":6,\"kind\":\"bench\",\"options\":{},"         \
    "\"parts\":{},\"path\":\"staged\",\"plan\":\"p\",\"seed\":1,\"sink\":0,\"threads\":1,"         \
    "\"window\":21}"

/* Returns the session "s0" of a run on the CPU. All its strings are literals, so there is nothing
 * to free. */
static inline struct kvr_session example_session(void)
{
    return (struct kvr_session){ .id = "s0",
                                 .argv = "[]",
                                 .config_path = "c.yaml",
                                 .config_text = "question: what?",
                                 .host = "h",
                                 .os = "o",
                                 .cpu_model = "m",
                                 .governor = "g",
                                 .n_cpus = 2,
                                 .jobs = 1,
                                 .memory_bytes = 1,
                                 .git_hash = "0",
                                 .compiler = "c",
                                 .cflags = "f",
                                 .code = "x",
                                 .libraries = "l",
                                 .turbo = "t",
                                 .driver = "none: cpu" };
}

/* Returns a cell with outcome `o` that is its own baseline. The cell is marked as measured if `o`
 * is OK. The row stores the pointers `key` and `session`, so both strings must outlive it. */
static inline struct kvr_row example_row(const char *key, const char *session, enum kvr_outcome o)
{
    return (struct kvr_row){ .key = key,
                             .rollout = key,
                             .baseline = key,
                             .spec = EXAMPLE_SPEC,
                             .session = session,
                             .method = "RTN_INT4",
                             .name = "RTN_INT4",
                             .reading = "intended",
                             .family = "RTN",
                             .model = "nano",
                             .suite = "s",
                             .prompt_id = "p",
                             .prompt = "a disc",
                             .outcome = o,
                             .reason = o == KVR_OUT_OK ? "" : "because",
                             .log_tail = "",
                             .started = "2026-01-01T00:00:00Z",
                             .finished = "2026-01-01T00:00:01Z",
                             .measured = o == KVR_OUT_OK,
                             .wall_ns = 1500000000,
                             .bf16_bytes = 1000,
                             .nominal_bytes = 250,
                             .resident_bytes = 260,
                             .peak_bytes = 5000 };
}

#endif
