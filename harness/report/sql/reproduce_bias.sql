SELECT method, model, count(*) AS n, avg(psnr_db) AS psnr_db, avg(ssim) AS ssim
FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND jitter = 0 AND forcing = 'none' GROUP BY method, model
ORDER BY count(*) DESC
