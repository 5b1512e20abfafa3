-- One metric per frame and prompt, averaged over the cells of a seed, then over seeds. {metric}: name of the series;
-- {who}: '' or a condition that selects methods, followed by AND.
SELECT method, family, is_baseline, settings, x, avg(v) AS value FROM (
  SELECT c.method, c.family, max(c.is_baseline) AS is_baseline, c.settings,
    c.suite, c.prompt_id, s.idx AS x, avg(s.value) AS v
  FROM cells_wide c JOIN series s ON s.cell = {c.series:{metric}}
  WHERE s.name = '{metric}' AND s.value IS NOT NULL AND {who}
    c.outcome = 'OK' AND c.run_kind = 'bench'
  AND c.jitter = 0
  GROUP BY c.settings, c.method, c.suite, c.prompt_id, c.seed, s.idx)
GROUP BY settings, method, suite, prompt_id, x
ORDER BY settings, is_baseline DESC, method, x
