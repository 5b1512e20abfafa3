-- Wall time per cell by method, run kind and forcing: mean and sum in seconds. From the means, `kvreel claims`
-- predicts the time to run the cells that undecided claims need.
SELECT coalesce(d.shown, c.method) AS method, c.run_kind, c.forcing, avg(c.wall_ns) / 1e9, sum(c.wall_ns) / 1e9
FROM cell c LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
WHERE c.outcome = 'OK' GROUP BY 1, 2, 3
