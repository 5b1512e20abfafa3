/* paper_sql.h - the statements of tables in the forms that papers print; tables.c names them. */
#ifndef KVR_REPORT_PAPER_SQL_H
#define KVR_REPORT_PAPER_SQL_H

#include "harness/store/views.h"

#define KVR_SQL_METRIC(name) KVR_SQL_SCORE("w", "value", name)

/* clang-format off */
/* The study's columns, in its order: most compressed first. Runtime is a mean, as there. */
#define KVR_SQL_STUDY(suite)                                                                       \
    "SELECT " suite "w.method,\n"                                                                  \
    "  sum(w.bf16_bytes) * 1.0 / nullif(sum(w.nominal_bytes), 0) AS compression,\n"                \
    "  max(w.peak_bytes) AS peak_bytes, avg(w.runtime_s) AS runtime_s, avg(w.ssim) AS ssim,\n"     \
    "  avg(" KVR_SQL_METRIC("lpips") ") AS lpips, avg(w.psnr_db) AS psnr_db,\n"                    \
    "  avg(" KVR_SQL_METRIC("ssim.drift") ") AS drift,\n"                                          \
    "  count(*) FILTER (WHERE w.outcome = 'OK') || '/' || count(*) AS n, {w.group}, w.machine\n"   \
    "FROM cells_wide w WHERE w.run_kind = 'bench'\n"                                               \
    "GROUP BY " suite "w.method, {w.group}, w.machine\n"                                           \
    "ORDER BY {w.group}, w.machine, " suite "round(compression, 4) DESC, w.method"

#define KVR_SQL_SE(x)                                                                              \
    "sqrt(max(0.0, avg(" x " * " x ") - avg(" x ") * avg(" x ")) / nullif(count(" x ") - 1, 0))"

/* Carriers that were measured with a correction, without it and with each. */
#define KVR_SQL_BIAS                                                                               \
    "WITH w AS (SELECT w.*, json_extract(c.spec, '$.parts.correction') AS correction,\n"           \
    "    iif(instr(w.method, '+'), substr(w.method, 1, instr(w.method, '+') - 1), w.method)\n"     \
    "      AS carrier, " KVR_SQL_METRIC("lpips") " AS lpips\n"                                     \
    "  FROM cells_wide w JOIN cell c USING(key)\n"                                                 \
    "  WHERE w.outcome = 'OK' AND w.run_kind = 'bench')\n"                                         \
    "SELECT carrier, correction, avg(psnr_db) AS psnr_db, " KVR_SQL_SE("psnr_db") " AS psnr_se,\n" \
    "  avg(ssim) AS ssim, " KVR_SQL_SE("ssim") " AS ssim_se, avg(lpips) AS lpips,\n"               \
    "  " KVR_SQL_SE("lpips") " AS lpips_se, count(*) AS n_ok, max(warning) AS warning, {group}\n"  \
    "FROM w WHERE carrier IN (SELECT carrier FROM w WHERE correction <> 'none')\n"                 \
    "GROUP BY carrier, correction, {group}\n"                                                      \
    "ORDER BY {group}, carrier, correction <> 'none', correction"

/* Tokens that the last pass found in a layer of the cache, and what became of the video. */
#define KVR_SQL_CACHE_SIZE                                                                         \
    "SELECT (SELECT tokens FROM pass p WHERE p.cell = w.key ORDER BY idx DESC LIMIT 1)\n"          \
    "    AS cache_tokens, w.method,\n"                                                             \
    "  avg(w.resident_bytes) AS resident_bytes, avg(w.ssim) AS ssim, avg(w.psnr_db) AS psnr_db,\n" \
    "  avg(" KVR_SQL_METRIC("linear_smoothness") ") AS smoothness,\n"                              \
    "  avg(" KVR_SQL_METRIC("sharpness") ") AS sharpness,\n"                                       \
    "  avg(" KVR_SQL_METRIC("ssim.drift") ") AS drift, count(*) AS n_ok, {w.group}\n"              \
    "FROM cells_wide w WHERE w.outcome = 'OK' AND w.run_kind = 'bench'\n"                          \
    "GROUP BY cache_tokens, w.method, {w.group}\n"                                                 \
    "ORDER BY w.model, w.frames, cache_tokens DESC, ssim DESC, w.method"

/* What a method was made of, from the cells themselves. */
#define KVR_SQL_OPTIONS                                                                            \
    "SELECT DISTINCT coalesce(shown, method) AS method, reading, model, coalesce(json_extract(spec, '$.parts.codec_k'),\n"    \
    "    json_extract(spec, '$.parts.\"codec_k.recent\"') || ' / ' ||\n"                           \
    "    json_extract(spec, '$.parts.\"codec_k.old\"')) AS codec_k,\n"                             \
    "  coalesce(json_extract(spec, '$.parts.codec_v'),\n"                                          \
    "    json_extract(spec, '$.parts.\"codec_v.recent\"') || ' / ' ||\n"                           \
    "    json_extract(spec, '$.parts.\"codec_v.old\"')) AS codec_v,\n"                             \
    "  json_extract(spec, '$.parts.tiers') AS tiers,\n"                                            \
    "  json_extract(spec, '$.parts.retention') AS retention,\n"                                    \
    "  json_extract(spec, '$.parts.cadence') AS cadence,\n"                                        \
    "  json_extract(spec, '$.parts.recode') AS recode,\n"                                          \
    "  json_extract(spec, '$.parts.correction') AS correction,\n"                                  \
    "  json_extract(spec, '$.parts.reuse') AS reuse,\n"                                            \
    "  nullif(json_extract(spec, '$.options'), '{}') AS options\n"                                 \
    "FROM cell LEFT JOIN made USING(method, made_of) ORDER BY is_baseline DESC, method"

/* Pearson's correlation of the methods' means between two suites. */
#define KVR_SQL_SUITES                                                                             \
    "WITH m AS (SELECT suite, method, {group}, avg(ssim) AS ssim,\n"                               \
    "    avg(psnr_db) AS psnr_db, avg(compression) AS compression,\n"                              \
    "    max(peak_bytes) AS peak_bytes, avg(runtime_s) AS runtime_s\n"                             \
    "  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench'\n"                              \
    "  GROUP BY suite, method, {group}),\n"                                                        \
    "l AS (SELECT suite, method, {group}, 'ssim' AS quantity, ssim AS x FROM m\n"                  \
    "  UNION ALL SELECT suite, method, {group}, 'psnr_db', psnr_db FROM m\n"                       \
    "  UNION ALL SELECT suite, method, {group}, 'compression', compression FROM m\n"               \
    "  UNION ALL SELECT suite, method, {group}, 'peak_bytes', peak_bytes FROM m\n"                 \
    "  UNION ALL SELECT suite, method, {group}, 'runtime_s', runtime_s FROM m),\n"                 \
    "p AS (SELECT a.suite AS suite_a, b.suite AS suite_b, {a.group},\n"                            \
    "    a.quantity, a.x AS x, b.x AS y,\n"                                                        \
    "    a.x - avg(a.x) OVER g AS dx, b.x - avg(b.x) OVER g AS dy\n"                               \
    "  FROM l a JOIN l b USING(method, {group}, quantity)\n"                                       \
    "  WHERE a.suite < b.suite AND a.x IS NOT NULL AND b.x IS NOT NULL\n"                          \
    "  WINDOW g AS (PARTITION BY a.suite, b.suite, {a.group}, quantity))\n"                        \
    "SELECT suite_a, suite_b, quantity, sum(dx * dy) / nullif(sqrt(sum(dx * dx) *\n"               \
    "    sum(dy * dy)), 0) AS pearson, count(*) AS methods, {group}\n"                             \
    "FROM p GROUP BY suite_a, suite_b, {group}, quantity\n"                                        \
    "ORDER BY {group}, suite_a, suite_b, quantity"
/* clang-format on */

#endif
