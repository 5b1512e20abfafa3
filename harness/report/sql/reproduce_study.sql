-- Results of the study's methods per model and suite. n is the number of prompts; seeds and repeats do not count.
WITH ok AS (SELECT w.*, {w.score:lpips} AS lpips, {w.score:vbench.imaging_quality} AS imaging_quality,
    row_number() OVER w AS rank, count(runtime_s) OVER m AS n FROM cells_wide w
  WHERE outcome = 'OK' AND run_kind = 'bench' AND jitter = 0
  AND forcing = 'none' AND method IN (name, name || '@study')
  AND (reading = 'study' OR is_baseline = 1)
  WINDOW m AS (PARTITION BY name, model, suite),
    w AS (PARTITION BY name, model, suite ORDER BY runtime_s IS NULL, runtime_s))
SELECT name, model, suite, count(DISTINCT prompt_id) AS n, avg(ssim) AS ssim, avg(psnr_db) AS psnr_db,
  avg(lpips) AS lpips, avg(imaging_quality) AS imaging_quality,
  max(bf16_bytes) * 1.0 AS bf16_bytes, max(peak_bytes) / 1073741824.0 AS peak_gib,
  sum(bf16_bytes) * 1.0 / nullif(sum(nominal_bytes), 0) AS compression,
  avg(CASE WHEN rank IN ((n + 1) / 2, (n + 2) / 2) THEN runtime_s END) AS runtime_s
FROM ok GROUP BY name, model, suite ORDER BY count(*) DESC
