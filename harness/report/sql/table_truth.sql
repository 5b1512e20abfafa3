-- Against frames that were really rendered.
SELECT method, sum(bf16_bytes) * 1.0 / nullif(sum(nominal_bytes), 0) AS compression,
  avg(psnr_truth) AS psnr_truth, avg(bf16_truth - psnr_truth) AS lost_db,
  avg(ssim_truth) AS ssim_truth, avg(truth_drift_db) AS truth_drift_db,
  avg(psnr_db) AS psnr_db, avg(ssim) AS ssim, count(*) AS n, suite, given, {group}
FROM (SELECT w.*, m.value AS psnr_truth, b.value AS bf16_truth, s.value AS ssim_truth,
    d.value AS truth_drift_db, json_extract(c.spec, '$.truth.given') AS given
  FROM cells_wide w JOIN cell c USING(key)
  JOIN metric m ON m.cell = c.key AND m.name = 'psnr_truth'
  LEFT JOIN metric b ON b.cell = c.baseline AND b.name = 'psnr_truth'
  LEFT JOIN metric s ON s.cell = c.key AND s.name = 'ssim_truth'
  LEFT JOIN metric d ON d.cell = c.key AND d.name = 'psnr_truth.drift'
  WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0
    AND m.value IS NOT NULL)
GROUP BY method, suite, given, {group}
ORDER BY model, suite, given, {group},
  max(is_baseline) DESC, compression IS NULL, round(compression, 3), method
