/* cost_columns.h - columns that two tables of memory and time per method share: one is computed
 * from a database (cost.c), the other from committed measurements on a GPU (cost_card.c). */
#ifndef KVR_REPORT_COST_COLUMNS_H
#define KVR_REPORT_COST_COLUMNS_H

#include "harness/report/table/table.h"

/* The macros expand to initializers of struct kvr_column without a trailing comma. */
#define COST_PUBLISHED_PEAK                                                                        \
    {                                                                                              \
        .name = "published_peak_gib", .head = "published", .unit = "(GiB)", .digits = 2            \
    }

/* Columns of the runtime: runtime_s of an undisturbed rollout; runtime_seen_s of a disturbed
 * (NOISY) rollout; and codes of the disturbances, such as LOAD (other programs used the CPU). */
#define COST_RUNTIME                                                                               \
    { .name = "runtime_s", .head = "runtime", .unit = "(s)", .digits = 2 },                        \
        { .name = "runtime_seen_s", .head = "uncontrolled runtime", .unit = "(s)", .digits = 2 },  \
    {                                                                                              \
        .name = "time_codes", .head = "why uncontrolled", .digits = -1                             \
    }

#define COST_PUBLISHED_RUNTIME                                                                     \
    { .name = "published_runtime_s", .head = "published", .unit = "(s)", .digits = 1 },            \
    {                                                                                              \
        .name = "published_runtime_ratio", .head = "published", .unit = "(x)", .digits = 2         \
    }

#define COST_FPS                                                                                   \
    { .name = "fps_transformer", .head = "transformer alone", .unit = "(frames/s)", .digits = 2 }, \
        { .name = "fps_vae", .head = "with the VAE", .unit = "(frames/s)", .digits = 2 },          \
    {                                                                                              \
        .name = "fps_taehv", .head = "with TAEHV", .unit = "(frames/s)", .digits = 2               \
    }

#endif
