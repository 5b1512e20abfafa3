-- Seconds that a cell takes, by method and kind, and of all cells that tests may be of.
SELECT method, run_kind, forcing, avg(wall_ns) / 1e9, sum(wall_ns) / 1e9 FROM
  (SELECT coalesce((SELECT d.shown FROM made d WHERE d.method = c.method AND d.made_of = c.made_of),
    c.method) AS method, c.run_kind, c.forcing, c.wall_ns FROM cell c WHERE outcome = 'OK')
GROUP BY 1, 2, 3
