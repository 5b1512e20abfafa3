-- Cells without results, with the kind of gap: excluded, unsupported, open or failed.
SELECT CASE WHEN c.outcome IN ('EXCLUDED', 'UNSUPPORTED') THEN lower(c.outcome)
    WHEN c.outcome IN ('SKIPPED', 'INTERRUPTED') THEN 'open' ELSE 'failed' END AS kind,
  coalesce(d.shown, c.method) AS method, c.model, c.suite, c.prompt_id, c.seed, c.frames,
  c.outcome, c.reason, c.key
FROM cell c LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
WHERE c.outcome <> 'OK'
UNION ALL SELECT 'open', p.method, p.model, p.suite, p.prompt_id, NULL, NULL, NULL,
  'not measured yet', p.cell
FROM plan p WHERE p.sweep IN (SELECT sweep FROM sweeps) AND p.state = 'planned'
  AND NOT EXISTS (SELECT 1 FROM cell c WHERE c.key = p.cell)
ORDER BY 1, 2, 5
