-- One row per cell, ordered by settings, compression, method and runtime. A method's cells without a controlled
-- time (`timing: true`) are last. session_baseline: mean seconds of the baseline's repeated measurements in the
-- cell's own session. It is set only if the baseline's cell belongs to another session.
WITH m AS (SELECT cell,
    max(at_peak) FILTER (WHERE tag = 'KV') AS kv,
    max(at_peak) FILTER (WHERE tag = 'META') AS meta,
    max(at_peak) FILTER (WHERE tag = 'SCRATCH') AS scratch,
    max(at_peak) FILTER (WHERE tag = 'WEIGHTS') AS weights,
    max(at_peak) FILTER (WHERE tag = 'ACT') AS act,
    max(at_peak) FILTER (WHERE tag = 'IO') AS io
  FROM mem GROUP BY cell),
s AS (SELECT cell,
    max(ns) FILTER (WHERE kind = 'encode') / 1e9 AS encode,
    max(ns) FILTER (WHERE kind = 'decode') / 1e9 AS decode,
    max(ns) FILTER (WHERE kind = 'attend') / 1e9 AS attend,
    max(ns) FILTER (WHERE kind = 'linear') / 1e9 AS linear,
    max(ns) FILTER (WHERE kind = 'cross') / 1e9 AS "cross",
    max(ns) FILTER (WHERE kind = 'other') / 1e9 AS other,
    max(ns) FILTER (WHERE kind = 'noise') / 1e9 AS noise
  FROM sample WHERE round = 0 GROUP BY cell)
SELECT w.method, w.name, w.is_baseline, w.compression, w.peak_bytes,
  w.device_bytes, w.nvml_bytes, w.context_bytes, w.beyond_bytes,
  CASE WHEN w.device_bytes IS NULL THEN NULL WHEN w.nvml_bytes IS NULL THEN coalesce(w.nvml_missing, 'NVML: not asked')
    WHEN abs(w.beyond_bytes) <= 0.02 * w.nvml_bytes THEN printf('agree within %.1f %%', 100.0 * abs(w.beyond_bytes) / w.nvml_bytes)
    ELSE printf('%.1f %% of NVML is in neither: modules, workspaces of libraries', 100.0 * w.beyond_bytes / w.nvml_bytes) END,
  m.kv, m.meta, m.scratch, m.weights, m.act, m.io,
  w.runtime_s, iif(w.runtime_s IS NULL, w.runtime_seen_s, NULL), w.time_codes,
  s.encode, s.decode, s.attend, s.linear, s."cross", s.other, s.noise,
  w.fps_transformer, w.fps_vae, w.fps_taehv,
  iif(w.fps_transformer IS NULL, w.fps_transformer_seen, NULL),
  iif(w.fps_vae IS NULL, w.fps_vae_seen, NULL), iif(w.fps_taehv IS NULL, w.fps_taehv_seen, NULL),
  iif(w.fps_transformer_seen IS NULL, NULL, w.fps_missing),
  w.settings || ', ' || w.machine AS settings,
  c.spec,
  (SELECT avg(d.ns) / 1e9 FROM drift d JOIN cell b ON b.key = d.cell
    WHERE d.session = c.session AND d.cell = c.baseline AND b.session <> c.session) AS session_baseline,
  w.model
FROM cells_wide w JOIN cell c ON c.key = w.key
  LEFT JOIN m ON m.cell = w.key LEFT JOIN s ON s.cell = w.key
WHERE w.run_kind = 'bench' AND w.jitter = 0 AND w.outcome = 'OK'
ORDER BY settings, w.is_baseline DESC, w.compression IS NULL, round(w.compression, 3),
  w.method, w.runtime_s IS NULL, w.runtime_seen_s
