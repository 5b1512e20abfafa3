-- One metric of each cell, per chunk (idx, value) and over the whole video (whole).
WITH w AS (SELECT *, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
    dense_rank() OVER (ORDER BY suite, prompt_id, seed,
      replace(root_settings, ', forcing ' || forcing, ''), machine) AS sample
  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND ({where}))
SELECT w.method, w.forcing, w.key, w.place, w.sample, w.is_control AS control,
  {w.score:{metric}} AS whole, s.idx, s.value
FROM w JOIN series s ON s.cell = {w.series:{metric}.drift} AND s.name = '{metric}.drift'
ORDER BY w.is_baseline OR w.is_control DESC, w.method, w.forcing, w.key, s.idx
