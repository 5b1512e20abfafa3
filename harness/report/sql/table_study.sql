-- The study's columns, in its order: most compressed first. Runtime is a mean, as there.
-- {by}: '', or 'w.suite, ' for each suite by itself.
SELECT {by}w.method,
  sum(w.bf16_bytes) * 1.0 / nullif(sum(w.nominal_bytes), 0) AS compression,
  max(w.peak_bytes) AS peak_bytes, avg(w.runtime_s) AS runtime_s, avg(w.ssim) AS ssim,
  avg({w.score:lpips}) AS lpips, avg(w.psnr_db) AS psnr_db,
  avg({w.score:ssim.drift}) AS drift,
  count(*) FILTER (WHERE w.outcome = 'OK') || '/' || count(*) AS n, {w.group}, w.machine
FROM cells_wide w WHERE w.run_kind = 'bench' AND w.jitter = 0
GROUP BY {by}w.method, {w.group}, w.machine
ORDER BY {w.group}, w.machine, {by}round(compression, 4) DESC, w.method
