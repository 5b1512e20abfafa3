-- Peak memory and runtime: one point per method, path, settings and machine. `settings` omits the path, so that one
-- figure shows all paths. card: the GPU, or for device cpu the CPU. commit, date: those of the newest session.
SELECT s.method, s.family, s.path, s.model, s.frames, s.window, s.peak_bytes, s.runtime_s,
  iif(s.runtime_s IS NULL, s.runtime_seen_s, NULL) AS runtime_seen_s, s.time_codes, s.n_ok AS n, NULL AS mark,
  w."commit", w.date, coalesce(w.gpu, substr(s.machine, 1, instr(s.machine || ',', ',') - 1)) AS card,
  replace(s.settings, ', path ' || s.path, '') || ', ' || s.machine AS settings
FROM summary s LEFT JOIN (
  SELECT c.method, c.settings, c.machine, max(e.git_hash) AS "commit", max(date(e.started)) AS date,
    max(iif(json_extract(k.spec, '$.backend') = 'cuda', json_extract(k.spec, '$.device'), NULL)) AS gpu
  FROM cells_wide c JOIN cell k ON k.key = c.key JOIN session e ON e.id = c.session
  WHERE c.outcome = 'OK' AND c.run_kind = 'bench' AND c.jitter = 0
  GROUP BY c.method, c.settings, c.machine) w USING (method, settings, machine)
ORDER BY settings, s.is_baseline DESC, s.method, s.path DESC
