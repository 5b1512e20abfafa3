SELECT model, window, count(*) AS n, avg(ssim) AS ssim FROM cells_wide
WHERE outcome = 'OK' AND run_kind = 'bench' AND jitter = 0 AND forcing = 'none' AND name = 'BF16' AND evict = 1
GROUP BY model, window
ORDER BY count(*) DESC
