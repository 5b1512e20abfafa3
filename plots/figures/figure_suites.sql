-- One point for each method: SSIM on one suite against SSIM on another.
WITH m AS (SELECT method, max(family) AS family, max(reading) AS reading,
    max(is_baseline) AS is_baseline,
    suite, {group}, avg(ssim) AS ssim,
    avg(compression) AS compression, count(*) AS n,
    count(*) FILTER (WHERE outcome = 'OK') AS n_ok
  FROM cells_wide WHERE run_kind = 'bench' AND jitter = 0 GROUP BY method, suite, {group})
SELECT method, a.family, a.reading, a.is_baseline, 16.0 / a.compression AS bits,
  a.ssim AS ssim_a, b.ssim AS ssim_b, a.n_ok + b.n_ok AS n_ok,
  a.n + b.n AS n_attempted, a.suite AS x_suite, b.suite AS y_suite, {group}
FROM m a JOIN m b USING(method, {group})
WHERE a.suite < b.suite ORDER BY x_suite, y_suite, method
