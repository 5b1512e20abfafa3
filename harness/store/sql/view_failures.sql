SELECT c.outcome, coalesce(d.shown, c.method) AS method, c.model, c.prompt_id, c.seed,
  c.frames, c.reason, c.attempt, c.finished, c.log_tail, c.key
FROM cell c LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
WHERE c.outcome NOT IN ('OK', 'EXCLUDED', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED')
  -- Excludes cells that are only in older plans of their config; cells in no plan are included.
  AND (c.key NOT IN (SELECT cell FROM plan)
    OR c.key IN (SELECT p.cell FROM plan p JOIN sweeps w ON w.sweep = p.sweep))
ORDER BY c.outcome, c.method, c.prompt_id
