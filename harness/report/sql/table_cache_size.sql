-- Tokens per layer in the cache at the rollout's last forward pass, and the video's fidelity: means over prompts
-- with 95 % intervals. Seeds and repeats are averaged per prompt.
WITH w AS (SELECT (SELECT tokens FROM pass p WHERE p.cell = w.key ORDER BY idx DESC LIMIT 1)
    AS cache_tokens, w.*, {w.score:linear_smoothness} AS smoothness,
    {w.score:sharpness} AS sharpness, {w.score:ssim.drift} AS drift
  FROM cells_wide w WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0),
p AS (SELECT cache_tokens, method, {group}, suite, prompt_id,
    sum(bf16_bytes) AS bf16_bytes, sum(nominal_bytes) AS nominal_bytes,
    avg(resident_bytes) AS resident_bytes, avg(ssim) AS ssim, avg(psnr_db) AS psnr_db,
    avg(smoothness) AS smoothness, avg(sharpness) AS sharpness, avg(drift) AS drift, count(*) AS n
  FROM w GROUP BY cache_tokens, method, {group}, suite, prompt_id)
SELECT cache_tokens, method, sum(bf16_bytes) * 1.0 / nullif(sum(nominal_bytes), 0) AS compression,
  avg(resident_bytes) AS resident_bytes,
  avg(ssim) AS ssim, max(-1.0, mean_lo(ssim)) AS ssim_lo, min(1.0, mean_hi(ssim)) AS ssim_hi,
  avg(psnr_db) AS psnr_db,
    max(0.0, mean_lo(psnr_db)) AS psnr_lo, min(100.0, mean_hi(psnr_db)) AS psnr_hi,
  avg(smoothness) AS smoothness,
    max(0.0, mean_lo(smoothness)) AS smoothness_lo, min(1.0, mean_hi(smoothness)) AS smoothness_hi,
  avg(sharpness) AS sharpness,
    max(0.0, mean_lo(sharpness)) AS sharpness_lo, mean_hi(sharpness) AS sharpness_hi,
  avg(drift) AS drift, mean_lo(drift) AS drift_lo, mean_hi(drift) AS drift_hi,
  sum(n) AS n_ok, {group}
FROM p GROUP BY cache_tokens, method, {group}
ORDER BY model, frames, cache_tokens DESC, avg(ssim) DESC, method
