-- Carriers that were measured with a correction, without it and with each: means and their
-- standard errors.
WITH w AS (SELECT w.*, json_extract(c.spec, '$.parts.correction') AS correction,
    iif(instr(w.method, '+'), substr(w.method, 1, instr(w.method, '+') - 1), w.method)
      AS carrier, {w.score:lpips} AS lpips
  FROM cells_wide w JOIN cell c USING(key)
  WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.jitter = 0)
SELECT carrier, correction, avg(psnr_db) AS psnr_db,
  sqrt(max(0.0, avg(psnr_db * psnr_db) - avg(psnr_db) * avg(psnr_db))
    / nullif(count(psnr_db) - 1, 0)) AS psnr_se,
  avg(ssim) AS ssim,
  sqrt(max(0.0, avg(ssim * ssim) - avg(ssim) * avg(ssim))
    / nullif(count(ssim) - 1, 0)) AS ssim_se,
  avg(lpips) AS lpips,
  sqrt(max(0.0, avg(lpips * lpips) - avg(lpips) * avg(lpips))
    / nullif(count(lpips) - 1, 0)) AS lpips_se,
  count(*) AS n_ok, max(warning) AS warning, {group}
FROM w WHERE carrier IN (SELECT carrier FROM w WHERE correction <> 'none')
GROUP BY carrier, correction, {group}
ORDER BY {group}, carrier, correction <> 'none', correction
