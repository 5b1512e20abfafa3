-- The columns of the study's table with 95 % intervals, most compressed method first. Runtime is a mean, as in the
-- study. Seeds and repeats are averaged per prompt. {by}: '', or 'w.suite, ' for one table per suite.
WITH p AS (SELECT w.method, w.suite, w.prompt_id, {w.group}, w.machine,
    sum(w.bf16_bytes) AS bf16_bytes, sum(w.nominal_bytes) AS nominal_bytes,
    max(w.peak_bytes) AS peak_bytes, avg(w.runtime_s) AS runtime_s, avg(w.ssim) AS ssim,
    avg({w.score:lpips}) AS lpips, avg(w.psnr_db) AS psnr_db, avg({w.score:ssim.drift}) AS drift,
    count(*) FILTER (WHERE w.outcome = 'OK') AS n_ok, count(*) AS n
  FROM cells_wide w WHERE w.run_kind = 'bench' AND w.jitter = 0
  GROUP BY w.method, w.suite, w.prompt_id, {w.group}, w.machine)
SELECT {by}w.method,
  sum(w.bf16_bytes) * 1.0 / nullif(sum(w.nominal_bytes), 0) AS compression,
  max(w.peak_bytes) AS peak_bytes,
  avg(w.runtime_s) AS runtime_s,
    max(0.0, mean_lo(w.runtime_s)) AS runtime_lo, mean_hi(w.runtime_s) AS runtime_hi,
  avg(w.ssim) AS ssim,
    max(-1.0, mean_lo(w.ssim)) AS ssim_lo, min(1.0, mean_hi(w.ssim)) AS ssim_hi,
  avg(w.lpips) AS lpips, max(0.0, mean_lo(w.lpips)) AS lpips_lo, mean_hi(w.lpips) AS lpips_hi,
  avg(w.psnr_db) AS psnr_db,
    max(0.0, mean_lo(w.psnr_db)) AS psnr_lo, min(100.0, mean_hi(w.psnr_db)) AS psnr_hi,
  avg(w.drift) AS drift, mean_lo(w.drift) AS drift_lo, mean_hi(w.drift) AS drift_hi,
  sum(w.n_ok) || '/' || sum(w.n) AS n, {w.group}, w.machine
FROM p w GROUP BY {by}w.method, {w.group}, w.machine
ORDER BY {w.group}, w.machine, {by}round(compression, 4) DESC, w.method
