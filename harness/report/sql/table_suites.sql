-- Pearson correlation, over methods, of their mean scores on two suites.
WITH m AS (SELECT suite, method, {group}, avg(ssim) AS ssim,
    avg(psnr_db) AS psnr_db, avg(compression) AS compression,
    max(peak_bytes) AS peak_bytes, avg(runtime_s) AS runtime_s
  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND jitter = 0
  GROUP BY suite, method, {group}),
l AS (SELECT suite, method, {group}, 'ssim' AS quantity, ssim AS x FROM m
  UNION ALL SELECT suite, method, {group}, 'psnr_db', psnr_db FROM m
  UNION ALL SELECT suite, method, {group}, 'compression', compression FROM m
  UNION ALL SELECT suite, method, {group}, 'peak_bytes', peak_bytes FROM m
  UNION ALL SELECT suite, method, {group}, 'runtime_s', runtime_s FROM m),
p AS (SELECT a.suite AS suite_a, b.suite AS suite_b, {a.group},
    a.quantity, a.x AS x, b.x AS y,
    a.x - avg(a.x) OVER g AS dx, b.x - avg(b.x) OVER g AS dy
  FROM l a JOIN l b USING(method, {group}, quantity)
  WHERE a.suite < b.suite AND a.x IS NOT NULL AND b.x IS NOT NULL
  WINDOW g AS (PARTITION BY a.suite, b.suite, {a.group}, quantity))
SELECT suite_a, suite_b, quantity, sum(dx * dy) / nullif(sqrt(sum(dx * dx) *
    sum(dy * dy)), 0) AS pearson, count(*) AS methods, {group}
FROM p GROUP BY suite_a, suite_b, {group}, quantity
ORDER BY {group}, suite_a, suite_b, quantity
