SELECT c.outcome, coalesce(d.shown, c.method) AS method, c.model, c.prompt_id, c.seed,
  c.frames, c.reason, c.attempt, c.finished, c.log_tail, c.key
FROM cell c LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
WHERE c.outcome NOT IN ('OK', 'EXCLUDED', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED')
ORDER BY c.outcome, c.method, c.prompt_id
