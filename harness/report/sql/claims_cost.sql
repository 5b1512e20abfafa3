-- Seconds per cell, by method, kind and forcing: mean and sum. Used to predict the cost of open claims.
SELECT method, run_kind, forcing, avg(wall_ns) / 1e9, sum(wall_ns) / 1e9 FROM
  (SELECT coalesce((SELECT d.shown FROM made d WHERE d.method = c.method AND d.made_of = c.made_of),
    c.method) AS method, c.run_kind, c.forcing, c.wall_ns FROM cell c WHERE outcome = 'OK')
GROUP BY 1, 2, 3
