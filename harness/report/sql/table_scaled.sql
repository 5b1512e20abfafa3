-- Time and memory of models with random weights by number of layers: one row per model, method, settings and
-- number of layers. Layers 0 means the whole model, which is last. `rest` is the settings and machine as one text;
-- all cells that a row averages have the same `rest`.
SELECT json_extract(c.spec, '$.model.name') AS model, w.method, w.is_baseline,
  json_remove(c.spec, '$.model', '$.prompt', '$.seed', '$.repeat', '$.method', '$.plan', '$.options', '$.parts', '$.reading', '$.files')
    || coalesce(json_extract(c.spec, '$.model.steps'), 0)
    || coalesce(json_extract(c.spec, '$.model.compute'), '') || w.machine AS rest,
  w.path, w.frames, w.window, coalesce(json_extract(c.spec, '$.model.layers'), 0) AS layers,
  avg(w.runtime_s) AS runtime_s, avg(w.runtime_seen_s) AS runtime_seen_s, max(w.time_codes) AS time_codes,
  max(w.peak_bytes) AS peak_bytes
FROM cells_wide w JOIN cell c ON c.key = w.key
WHERE w.run_kind = 'bench' AND w.jitter = 0 AND w.outcome = 'OK'
  AND json_extract(c.spec, '$.model.name') IN (SELECT json_extract(spec, '$.model.name') FROM cell
    WHERE json_extract(spec, '$.model.layers') > 0)
GROUP BY 1, rest, w.is_baseline, w.method, layers
ORDER BY 1, rest, w.is_baseline DESC, w.method, layers = 0, layers
