-- Tokens that the last pass found in a layer of the cache, and what became of the video.
SELECT (SELECT tokens FROM pass p WHERE p.cell = w.key ORDER BY idx DESC LIMIT 1)
    AS cache_tokens, w.method,
  avg(w.resident_bytes) AS resident_bytes, avg(w.ssim) AS ssim, avg(w.psnr_db) AS psnr_db,
  avg({w.score:linear_smoothness}) AS smoothness,
  avg({w.score:sharpness}) AS sharpness,
  avg({w.score:ssim.drift}) AS drift, count(*) AS n_ok, {w.group}
FROM cells_wide w WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0
GROUP BY cache_tokens, w.method, {w.group}
ORDER BY w.model, w.frames, cache_tokens DESC, ssim DESC, w.method
