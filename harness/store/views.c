/* views.c - the wide tables that people ask for, as views of the long ones.
 *
 * A database has them as they were when it was made; whoever reads through kvreel gets them as they
 * are here, so that a view may change without the tables. No mean is taken over cells that differ
 * in a setting: {group} is the list that settings.def gives, for every view and every table of the
 * reports. No mean has one rollout twice: cells that differ in their metrics alone are one run. And
 * no mean is taken over methods that are not made of the same: where one label was given to
 * several, its options stand behind it. */
#include "harness/store/views.h"

#include "harness/store/store.h"

const struct kvr_store_view kvr_store_views[] = {
    /* What a label stands for, where it stands for several things: `shown`. A cell that cannot run
     * is made of nothing. */
    { "made",
      "WITH what AS (SELECT method, made_of, json_extract(made_of, '$[0]') AS plan,\n"
      "    coalesce((SELECT group_concat(key || '=' || value, ' ')\n"
      "      FROM json_each(made_of, '$[1]')), '') AS options\n"
      "  FROM (SELECT DISTINCT method, made_of FROM cell WHERE made_of IS NOT NULL)),\n"
      "told AS (SELECT *, count(*) OVER (PARTITION BY method) AS n,\n"
      "    iif(min(plan) OVER (PARTITION BY method) = max(plan) OVER (PARTITION BY method), '',\n"
      "      ' ' || plan) || iif(options = '', '', ' ' || options) AS behind FROM what)\n"
      "SELECT method, made_of, CASE WHEN n = 1 THEN method\n"
      "  WHEN count(*) OVER (PARTITION BY method, behind) = 1 THEN method || behind\n"
      "  ELSE method || behind || ' #' || dense_rank() OVER (PARTITION BY method ORDER BY "
      "made_of)\n"
      "  END AS shown FROM told" },
    /* One row per run: a cell, or of cells that only differ in their metrics the one that worked
     * out last, with the metrics of all of them as columns. `machine`: what times may be compared
     * in. */
    { "cells_wide",
      "SELECT c.key, coalesce(d.shown, c.method) AS method, c.name, c.reading, c.family,\n"
      "  c.is_baseline, c.model, c.suite, c.prompt_id, c.prompt, {c.columns}, c.repeat,\n"
      "  c.outcome, c.reason,\n"
      "  " KVR_SQL_SCORE(
          "c", "value",
          "psnr") " AS psnr_db,\n"
                  "  " KVR_SQL_SCORE(
                      "c", "value",
                      "ssim") " AS ssim,\n"
                              "  " KVR_SQL_SCORE(
                                  "c", "extra",
                                  "psnr") " AS identical_frames,\n"
                                          "  c.bf16_bytes, c.nominal_bytes, c.resident_bytes,\n"
                                          "  c.max_nominal_bytes, c.max_resident_bytes,\n"
                                          "  CAST(c.bf16_bytes AS REAL) / nullif(c.nominal_bytes, "
                                          "0) AS compression,\n"
                                          "  CAST(c.bf16_bytes AS REAL) / nullif(c.resident_bytes, "
                                          "0) AS resident_compression,\n"
                                          "  c.peak_bytes, c.host_peak_bytes, c.wall_ns / 1e9 AS "
                                          "runtime_s, c.attempt, c.session,\n"
                                          "  c.verdict, c.verdict_codes, c.device_bytes,\n"
                                          "  s.cpu_model || ', ' || s.n_cpus || ' CPUs' || "
                                          "iif(s.driver = 'none: cpu', '', ', ' ||\n"
                                          "    s.driver) AS machine, s.code, c.rollout, c.run, "
                                          "c.warning, {c.settings} AS settings\n"
                                          "FROM cell c JOIN session s ON s.id = c.session\n"
                                          "  LEFT JOIN made d ON d.method = c.method AND d.made_of "
                                          "= c.made_of\n"
                                          "WHERE NOT EXISTS (SELECT 1 FROM cell t WHERE t.run = "
                                          "c.run AND (t.outcome = 'OK',\n"
                                          "  t.finished, t.key) > (c.outcome = 'OK', c.finished, "
                                          "c.key))" },
    /* One row per method, model, settings and machine, of timed cells. Means are over the cells
     * that have the number; n_ok beside n_attempted says when that is not all of them. A time
     * counts when its cell is VALID. */
    { "summary",
      "WITH w AS MATERIALIZED (SELECT * FROM cells_wide WHERE run_kind = 'bench'),\n"
      "ok AS (SELECT *,\n"
      "    row_number() OVER (PARTITION BY method, {group}, machine ORDER BY runtime_s) AS rank,\n"
      "    count(*) OVER (PARTITION BY method, {group}, machine) AS n\n"
      "  FROM w WHERE verdict = 'VALID'),\n"
      "med AS (SELECT method, {group}, machine, avg(runtime_s) AS runtime_s\n"
      "  FROM ok WHERE rank IN ((n + 1) / 2, (n + 2) / 2) GROUP BY method, {group}, machine)\n"
      "SELECT w.method, w.name, w.reading, w.family, max(w.is_baseline) AS is_baseline,\n"
      "  {w.group},\n"
      "  count(*) FILTER (WHERE w.outcome = 'OK') AS n_ok, count(*) AS n_attempted,\n"
      "  avg(w.psnr_db) FILTER (WHERE w.outcome = 'OK') AS psnr_db,\n"
      "  avg(w.ssim) FILTER (WHERE w.outcome = 'OK') AS ssim,\n"
      "  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /\n"
      "    nullif(sum(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK'), 0) AS compression,\n"
      "  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /\n"
      "    nullif(sum(w.resident_bytes) FILTER (WHERE w.outcome = 'OK'), 0)\n"
      "    AS resident_compression,\n"
      "  avg(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') AS bf16_bytes,\n"
      "  avg(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK') AS nominal_bytes,\n"
      "  avg(w.resident_bytes) FILTER (WHERE w.outcome = 'OK') AS resident_bytes,\n"
      "  max(w.peak_bytes) FILTER (WHERE w.outcome = 'OK') AS peak_bytes,\n"
      "  med.runtime_s, w.machine, count(*) FILTER (WHERE w.verdict = 'VALID') AS n_valid,\n"
      "  count(*) FILTER (WHERE w.verdict = 'NOISY') AS n_noisy,\n"
      "  count(*) FILTER (WHERE w.verdict = 'INVALID') AS n_invalid,\n"
      "  max(w.warning) AS warning, w.settings\n"
      "FROM w LEFT JOIN med USING (method, {group}, machine)\n"
      "GROUP BY w.method, {w.group}, w.machine\n"
      "ORDER BY w.model, w.frames, w.window, w.machine, is_baseline DESC, w.method" },
    /* A cell that was measured twice, with other frames: the machines or the builds differ, or
     * something is not reproducible. Both attempts are kept. */
    { "conflict",
      "SELECT a.cell, c.method, c.prompt_id, a.frames_sha256 AS frames_a,\n"
      "  b.frames_sha256 AS frames_b, sa.host AS host_a, sb.host AS host_b,\n"
      "  sa.code = sb.code AS same_code, a.session AS session_a, b.session AS session_b\n"
      "FROM attempt a JOIN attempt b ON a.cell = b.cell AND a.frames_sha256 < b.frames_sha256\n"
      "JOIN session sa ON sa.id = a.session JOIN session sb ON sb.id = b.session\n"
      "JOIN cell c ON c.key = a.cell WHERE a.outcome = 'OK' AND b.outcome = 'OK'" },
    /* How complete the table is. */
    { "coverage",
      "SELECT model, suite, method, run_kind, count(*) AS n_attempted,\n"
      "  count(*) FILTER (WHERE outcome = 'OK') AS n_ok,\n"
      "  count(*) FILTER (WHERE outcome = 'UNSUPPORTED') AS n_unsupported,\n"
      "  count(*) FILTER (WHERE outcome IN ('SKIPPED', 'INTERRUPTED')) AS n_open,\n"
      "  count(*) FILTER (WHERE outcome NOT IN ('OK', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED'))\n"
      "    AS n_failed\n"
      "FROM cells_wide GROUP BY model, suite, method, run_kind\n"
      "ORDER BY model, suite, method, run_kind" },
    { "failures",
      "SELECT c.outcome, coalesce(d.shown, c.method) AS method, c.model, c.prompt_id, c.seed,\n"
      "  c.frames, c.reason, c.attempt, c.finished, c.log_tail, c.key\n"
      "FROM cell c LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of\n"
      "WHERE c.outcome <> 'OK' ORDER BY c.outcome, c.method, c.prompt_id" },
    /* A probed number by layer and head, averaged over cells (prompts, seeds). What does not
     * depend on the head has one row per layer. */
    { "probe_heads",
      "SELECT c.method, c.is_baseline, {c.group}, max(c.family) AS family, c.settings,\n"
      "  p.name, p.layer, p.head, avg(p.value) AS value, sum(p.n) AS n,\n"
      "  count(DISTINCT p.cell) AS n_cells\n"
      "FROM probe p JOIN cells_wide c ON c.key = p.cell\n"
      "WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND p.layer IS NOT NULL\n"
      "  AND (p.head IS NOT NULL OR p.name IN ('recodes', 'value_changes'))\n"
      "  AND p.step IS NULL AND p.chunk IS NULL AND p.age IS NULL\n"
      "GROUP BY c.method, {c.group}, p.name, p.layer, p.head" },
    /* Mean, median and 95th percentile (nearest rank) over the heads of a layer. */
    { "probe_by_layer",
      "WITH r AS (SELECT *,\n"
      "    row_number() OVER (PARTITION BY method, {group}, name, layer ORDER BY value) AS rank,\n"
      "    count(*) OVER (PARTITION BY method, {group}, name, layer) AS heads FROM probe_heads)\n"
      "SELECT method, max(is_baseline) AS is_baseline, {group},\n"
      "  name, layer, avg(value) AS mean,\n"
      "  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,\n"
      "  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,\n"
      "  heads, max(n_cells) AS n_cells\n"
      "FROM r GROUP BY method, {group}, name, layer" },
    /* The same over all heads of all layers. */
    { "probe_summary",
      "WITH r AS (SELECT *,\n"
      "    row_number() OVER (PARTITION BY method, {group}, name ORDER BY value) AS rank,\n"
      "    count(*) OVER (PARTITION BY method, {group}, name) AS heads FROM probe_heads)\n"
      "SELECT method, max(is_baseline) AS is_baseline, {group},\n"
      "  name, avg(value) AS mean,\n"
      "  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,\n"
      "  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,\n"
      "  heads, max(n_cells) AS n_cells\n"
      "FROM r GROUP BY method, {group}, name" },
    { "probe_by_age",
      "SELECT c.method, max(c.is_baseline) AS is_baseline, {c.group}, max(c.family) AS family,\n"
      "  c.settings, p.name, p.age, avg(p.value) AS mean, sum(p.n) AS n,\n"
      "  count(DISTINCT p.cell) AS n_cells\n"
      "FROM probe p JOIN cells_wide c ON c.key = p.cell\n"
      "WHERE c.outcome = 'OK' AND p.layer IS NULL AND p.age IS NOT NULL AND p.value IS NOT NULL\n"
      "GROUP BY c.method, {c.group}, p.name, p.age" },
    /* How far chaos alone moves a metric: the BF16 rollout with its noise moved, beside the same
     * without, by prompt and metric. */
    { "chaos_floor",
      "WITH v AS (SELECT DISTINCT r.rollout AS root, c.rollout, r.method, r.suite, r.prompt_id,\n"
      "    {r.columns}, c.jitter_bits AS moved_bits, m.name, m.value\n"
      "  FROM cell c JOIN cell r ON r.key = c.baseline JOIN metric m ON m.cell = c.key\n"
      "  WHERE c.outcome = 'OK' AND c.jitter > 0 AND r.jitter = 0 AND m.value IS NOT NULL)\n"
      "SELECT v.*, count(*) AS draws, avg(value) AS mean, min(value) AS lowest,\n"
      "  max(value) AS highest FROM v GROUP BY root, moved_bits, name" },
    /* How far it moves a method's metrics, each draw against the BF16 rollout of its own: standard
     * deviation over draws, prompts and seeds pooled, and the widest range of one prompt. */
    { "jitter",
      "WITH v AS (SELECT DISTINCT r.rollout AS root, c.rollout, coalesce(d.shown, c.method)\n"
      "    AS method, {r.group}, c.jitter_bits AS moved_bits, m.name, m.value\n"
      "  FROM cell c JOIN cell b ON b.key = c.baseline JOIN cell r ON r.key = b.baseline\n"
      "    JOIN metric m ON m.cell = c.key\n"
      "    LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of\n"
      "  WHERE c.outcome = 'OK' AND c.jitter > 0 AND b.jitter = c.jitter\n"
      "    AND m.value IS NOT NULL),\n"
      "p AS (SELECT *, count(*) AS n, avg(value) AS mean, max(value) - min(value) AS width,\n"
      "    sum(value * value) - count(*) * avg(value) * avg(value) AS off\n"
      "  FROM v GROUP BY root, method, moved_bits, name)\n"
      "SELECT method, name, {group}, moved_bits, count(*) AS prompts, sum(n) AS draws, avg(mean) "
      "AS mean,\n"
      "  sqrt(max(0, sum(off)) / sum(n - 1)) AS sd, max(width) AS widest\n"
      "FROM p WHERE n > 1 GROUP BY method, name, {group}, moved_bits" },
    { NULL, NULL },
};
