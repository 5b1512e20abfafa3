-- Fidelity to rendered ground truth: means over prompts with 95 % intervals. Seeds and repeats are averaged per
-- prompt.
WITH w AS (SELECT w.*, m.value AS psnr_truth, b.value - m.value AS lost_db, s.value AS ssim_truth,
    d.value AS truth_drift_db, json_extract(c.spec, '$.truth.given') AS given
  FROM cells_wide w JOIN cell c USING(key)
  JOIN metric m ON m.cell = c.key AND m.name = 'psnr_truth'
  LEFT JOIN metric b ON b.cell = c.baseline AND b.name = 'psnr_truth'
  LEFT JOIN metric s ON s.cell = c.key AND s.name = 'ssim_truth'
  LEFT JOIN metric d ON d.cell = c.key AND d.name = 'psnr_truth.drift'
  WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0
    AND m.value IS NOT NULL),
p AS (SELECT method, suite, given, {group}, prompt_id, max(is_baseline) AS is_baseline,
    sum(bf16_bytes) AS bf16_bytes, sum(nominal_bytes) AS nominal_bytes,
    avg(psnr_truth) AS psnr_truth, avg(lost_db) AS lost_db, avg(ssim_truth) AS ssim_truth,
    avg(truth_drift_db) AS truth_drift_db, avg(psnr_db) AS psnr_db, avg(ssim) AS ssim, count(*) AS n
  FROM w GROUP BY method, suite, given, {group}, prompt_id)
SELECT method, sum(bf16_bytes) * 1.0 / nullif(sum(nominal_bytes), 0) AS compression,
  avg(psnr_truth) AS psnr_truth,
    max(0.0, mean_lo(psnr_truth)) AS psnr_truth_lo, min(100.0, mean_hi(psnr_truth)) AS psnr_truth_hi,
  avg(lost_db) AS lost_db, mean_lo(lost_db) AS lost_lo, mean_hi(lost_db) AS lost_hi,
  avg(ssim_truth) AS ssim_truth,
    max(-1.0, mean_lo(ssim_truth)) AS ssim_truth_lo, min(1.0, mean_hi(ssim_truth)) AS ssim_truth_hi,
  avg(truth_drift_db) AS truth_drift_db,
    mean_lo(truth_drift_db) AS truth_drift_lo, mean_hi(truth_drift_db) AS truth_drift_hi,
  avg(psnr_db) AS psnr_db,
    max(0.0, mean_lo(psnr_db)) AS psnr_lo, min(100.0, mean_hi(psnr_db)) AS psnr_hi,
  avg(ssim) AS ssim, max(-1.0, mean_lo(ssim)) AS ssim_lo, min(1.0, mean_hi(ssim)) AS ssim_hi,
  sum(n) AS n, suite, given, {group}
FROM p GROUP BY method, suite, given, {group}
ORDER BY model, suite, given, {group},
  max(is_baseline) DESC, compression IS NULL, round(compression, 3), method
