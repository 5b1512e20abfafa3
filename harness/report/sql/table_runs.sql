-- One metric of the cells of one database, for a comparison with another database. {metric}: its name; {where}: a
-- condition that selects cells; {order}: columns to sort by.
SELECT c.key, c.method, c.settings, dense_rank() OVER (ORDER BY c.suite, c.prompt_id) AS prompt,
  c.seed, {c.score:{metric}} AS value, c.runtime_s,
  (SELECT a.sha256 FROM artifact a WHERE a.cell = c.key AND a.kind = 'frames') AS frames
FROM (SELECT * FROM cells_wide WHERE ({where})) c
WHERE c.outcome = 'OK' AND c.run_kind = 'bench' AND c.jitter = 0 ORDER BY {order}
