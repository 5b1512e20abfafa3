-- One point per method and machine for each pair of suites: mean SSIM over the prompts of each suite, with 95 %
-- intervals.
WITH seeds AS (SELECT method, family, reading, is_baseline, suite, prompt_id, seed, machine, {group},
    avg(ssim) AS ssim, avg(compression) AS compression, count(*) AS n,
    count(*) FILTER (WHERE outcome = 'OK') AS n_ok
  FROM cells_wide WHERE run_kind = 'bench' AND jitter = 0
  GROUP BY method, suite, prompt_id, seed, machine, {group}),
prompts AS (SELECT method, max(family) AS family, max(reading) AS reading,
    max(is_baseline) AS is_baseline, suite, machine, {group}, avg(ssim) AS ssim,
    avg(compression) AS compression, sum(n) AS n, sum(n_ok) AS n_ok
  FROM seeds GROUP BY method, suite, prompt_id, machine, {group}),
m AS (SELECT method, max(family) AS family, max(reading) AS reading,
    max(is_baseline) AS is_baseline, suite, machine, {group}, avg(ssim) AS ssim,
    max(-1, mean_lo(ssim)) AS lo, min(1, mean_hi(ssim)) AS hi,
    avg(compression) AS compression, count(ssim) AS n_prompts, sum(n) AS n, sum(n_ok) AS n_ok
  FROM prompts GROUP BY method, suite, machine, {group})
SELECT method, a.family, a.reading, a.is_baseline, 16.0 / a.compression AS bits,
  a.ssim AS ssim_a, b.ssim AS ssim_b, a.lo AS ssim_a_lo, a.hi AS ssim_a_hi,
  b.lo AS ssim_b_lo, b.hi AS ssim_b_hi, min(a.n_prompts, b.n_prompts) AS n_prompts,
  a.n_ok + b.n_ok AS n_ok, a.n + b.n AS n_attempted, a.suite AS x_suite, b.suite AS y_suite,
  {group}, machine
FROM m a JOIN m b USING(method, {group}, machine)
WHERE a.suite < b.suite ORDER BY x_suite, y_suite, method
