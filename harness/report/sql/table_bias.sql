-- Methods with cells that use a correction, compared with and without each correction: means over prompts with 95 %
-- intervals. Seeds and repeats are averaged per prompt.
WITH w AS (SELECT w.*, json_extract(c.spec, '$.parts.correction') AS correction,
    iif(instr(w.method, '+'), substr(w.method, 1, instr(w.method, '+') - 1), w.method)
      AS carrier, {w.score:lpips} AS lpips
  FROM cells_wide w JOIN cell c USING(key)
  WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0),
p AS (SELECT carrier, correction, {group}, suite, prompt_id, avg(psnr_db) AS psnr_db,
    avg(ssim) AS ssim, avg(lpips) AS lpips, count(*) AS n, max(warning) AS warning
  FROM w GROUP BY carrier, correction, {group}, suite, prompt_id)
SELECT carrier, correction,
  avg(psnr_db) AS psnr_db,
    max(0.0, mean_lo(psnr_db)) AS psnr_lo, min(100.0, mean_hi(psnr_db)) AS psnr_hi,
  avg(ssim) AS ssim, max(-1.0, mean_lo(ssim)) AS ssim_lo, min(1.0, mean_hi(ssim)) AS ssim_hi,
  avg(lpips) AS lpips, max(0.0, mean_lo(lpips)) AS lpips_lo, mean_hi(lpips) AS lpips_hi,
  sum(n) AS n_ok, max(warning) AS warning, {group}
FROM p WHERE carrier IN (SELECT carrier FROM p WHERE correction <> 'none')
GROUP BY carrier, correction, {group}
ORDER BY {group}, carrier, correction <> 'none', correction
