-- Mean of one metric per method, forcing (none or teacher) and prompt, with the prompt's text, its chaos floor and
-- the lowest PSNR of its BF16 draws.
WITH f AS (SELECT suite, prompt_id, avg(mean) FILTER (WHERE name = '{metric}') AS floor,
    min(lowest) FILTER (WHERE name = 'psnr') AS lowest
  FROM chaos_floor WHERE forcing = 'none' GROUP BY suite, prompt_id)
SELECT w.method, w.forcing = 'teacher', dense_rank() OVER (ORDER BY w.suite, w.prompt_id), avg({value}),
  w.prompt, f.floor, f.lowest
FROM cells_wide w LEFT JOIN f USING (suite, prompt_id)
WHERE w.outcome = 'OK' AND w.run_kind = 'bench' AND w.forcing IN ('none', 'teacher') AND NOT w.is_control
  AND w.jitter = 0 AND '{model}' IN (w.model, '')
GROUP BY w.method, w.forcing, w.suite, w.prompt_id HAVING avg({value}) IS NOT NULL
ORDER BY 1, 2, 3
