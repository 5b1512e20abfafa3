-- One metric over parts of the video: each chunk, prefixes, the last third, the whole. Only rollouts with forcing
-- none.
WITH w AS (SELECT *, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
    dense_rank() OVER (ORDER BY suite, prompt_id, seed, root_settings, machine) AS sample
  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND forcing = 'none' AND ({where})),
v AS (SELECT printf('%05d chunk %d', s.idx, s.idx) AS window, w.method, w.place, w.sample,
    s.value, w.is_control AS control, w.is_baseline OR w.is_control AS first
  FROM w JOIN series s ON s.cell = {w.series:{metric}.drift} AND s.name = '{metric}.drift'
  UNION ALL SELECT printf('2%04d prefix %d', s.idx, s.idx + 1), w.method, w.place, w.sample,
    s.value, w.is_control, w.is_baseline OR w.is_control
  FROM w JOIN series s ON s.cell = {w.series:{metric}.prefix} AND s.name = '{metric}.prefix'
  UNION ALL SELECT '30000 last third', method, place, sample, {w.score:{metric}.last},
    is_control, is_baseline OR is_control FROM w
  UNION ALL SELECT '40000 whole', method, place, sample, {w.score:{metric}},
    is_control, is_baseline OR is_control FROM w)
SELECT window, method, place, sample, value, control FROM v WHERE value IS NOT NULL
ORDER BY window, first DESC, method
