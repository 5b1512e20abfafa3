/* nano_sweep.h - plans the cells of a sweep over the bundled model, without reading its weights.
 *
 *     struct nano_sweep n;
 *     open_nano_sweep(&n, "model: nano\n...");     n.sweep.cell ...
 *     close_nano_sweep(&n); */
#ifndef TESTS_NANO_SWEEP_H
#define TESTS_NANO_SWEEP_H

#include <check.h>
#include <string.h>

#include "harness/plan/sweep.h"

struct nano_sweep {
    struct kvr_model_config model;
    struct kvr_config config;
    struct kvr_sweep sweep;
};

static inline void open_nano_sweep(struct nano_sweep *n, const char *text)
{
    const struct kvr_model_facts facts = {
        .name = "nano",
        .sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .config = &n->model
    };

    memset(n, 0, sizeof *n);
    ck_assert_msg(kvr_model_config_read(&n->model, "models/nano/config.json") == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_config_read_text(&n->config, text, "a.yaml", NULL) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_sweep_make(&n->sweep, &n->config, &facts, 1) == KVR_OK, "%s", kvr_error());
}

static inline void close_nano_sweep(struct nano_sweep *n)
{
    kvr_sweep_free(&n->sweep);
    kvr_config_free(&n->config);
    kvr_model_config_free(&n->model);
}

#endif
