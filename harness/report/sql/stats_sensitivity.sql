-- One metric by method, prompt, seed and forcing (none or teacher). `seeds` is the index, from 1, of a seed among
-- the seeds of its prompt.
WITH w AS (SELECT *, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
    dense_rank() OVER (ORDER BY suite, prompt_id, seed,
      replace(root_settings, ', forcing ' || forcing, ''), machine) AS sample,
    dense_rank() OVER (PARTITION BY suite, prompt_id ORDER BY seed) AS seeds
  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND NOT is_baseline
    AND NOT is_control AND ({where}))
SELECT method, place, sample, seeds, forcing, {w.score:{metric}} AS value FROM w
WHERE value IS NOT NULL ORDER BY method
