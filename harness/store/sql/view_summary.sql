-- One row per method, model, settings and machine, over cells of run_kind 'bench'.
-- Means are over the cells that have a value for the column; n_ok of n_attempted cells have results.
-- runtime_s: median of controlled times (`timing: true`, idle machine). It is NULL if no cell has a controlled time;
--     time_codes has the reasons. runtime_seen_s: median of all times.
-- fps_*: means of the columns of cells_wide.
-- *_floor: mean metric of BF16 draws (perturbed noise) against the BF16 rollout. *_jitter: standard deviation over the
--     method's draws. Draws are in no other column.
WITH w AS MATERIALIZED (SELECT * FROM cells_wide WHERE run_kind = 'bench' AND jitter = 0),
ok AS (SELECT *,
    row_number() OVER (PARTITION BY method, {group}, machine ORDER BY runtime_s) AS rank,
    count(*) OVER (PARTITION BY method, {group}, machine) AS n
  FROM w WHERE runtime_s IS NOT NULL),
med AS (SELECT method, {group}, machine, avg(runtime_s) AS runtime_s
  FROM ok WHERE rank IN ((n + 1) / 2, (n + 2) / 2) GROUP BY method, {group}, machine),
seen AS (SELECT *,
    row_number() OVER (PARTITION BY method, {group}, machine ORDER BY runtime_seen_s) AS rank,
    count(*) OVER (PARTITION BY method, {group}, machine) AS n
  FROM w WHERE outcome = 'OK'),
mid AS (SELECT method, {group}, machine, avg(runtime_seen_s) AS runtime_seen_s
  FROM seen WHERE rank IN ((n + 1) / 2, (n + 2) / 2) GROUP BY method, {group}, machine),
low AS (SELECT {group}, max(iif(name = 'psnr', mean, NULL)) AS psnr_floor,
    max(iif(name = 'ssim', mean, NULL)) AS ssim_floor FROM floor GROUP BY {group}),
own AS (SELECT method, {group}, max(iif(name = 'psnr', sd, NULL)) AS psnr_jitter,
    max(iif(name = 'ssim', sd, NULL)) AS ssim_jitter FROM jitter GROUP BY method, {group})
SELECT w.method, w.name, w.reading, w.family, max(w.is_baseline) AS is_baseline,
  {w.group},
  count(*) FILTER (WHERE w.outcome = 'OK') AS n_ok, count(*) AS n_attempted,
  avg(w.psnr_db) FILTER (WHERE w.outcome = 'OK') AS psnr_db,
  avg(w.ssim) FILTER (WHERE w.outcome = 'OK') AS ssim,
  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /
    nullif(sum(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK'), 0) AS compression,
  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /
    nullif(sum(w.resident_bytes) FILTER (WHERE w.outcome = 'OK'), 0)
    AS resident_compression,
  avg(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') AS bf16_bytes,
  avg(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK') AS nominal_bytes,
  avg(w.resident_bytes) FILTER (WHERE w.outcome = 'OK') AS resident_bytes,
  avg(w.varying_bits) FILTER (WHERE w.outcome = 'OK') AS varying_bits,
  max(w.max_varying_bits) FILTER (WHERE w.outcome = 'OK') AS max_varying_bits,
  max(w.peak_bytes) FILTER (WHERE w.outcome = 'OK') AS peak_bytes,
  med.runtime_s, mid.runtime_seen_s,
  iif(med.runtime_s IS NULL, max(w.time_codes) FILTER (WHERE w.outcome = 'OK'), '') AS time_codes,
  avg(w.fps_transformer) AS fps_transformer, avg(w.fps_vae) AS fps_vae, avg(w.fps_taehv) AS fps_taehv,
  avg(w.fps_transformer_seen) AS fps_transformer_seen, avg(w.fps_vae_seen) AS fps_vae_seen,
  avg(w.fps_taehv_seen) AS fps_taehv_seen,
  min(w.fps_missing) FILTER (WHERE w.outcome = 'OK') AS fps_missing,
  w.machine, count(*) FILTER (WHERE w.verdict = 'VALID') AS n_valid,
  count(*) FILTER (WHERE w.verdict = 'NOISY') AS n_noisy,
  count(*) FILTER (WHERE w.verdict = 'INVALID') AS n_invalid,
  max(w.warning) AS warning, w.settings, psnr_floor, ssim_floor, psnr_jitter, ssim_jitter
FROM w LEFT JOIN med USING (method, {group}, machine)
  LEFT JOIN mid USING (method, {group}, machine) LEFT JOIN low USING ({group})
  LEFT JOIN own USING (method, {group})
GROUP BY w.method, {w.group}, w.machine
ORDER BY w.model, w.frames, w.window, w.machine, is_baseline DESC, w.method
