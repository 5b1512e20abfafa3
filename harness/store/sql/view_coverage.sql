-- Number of cells by outcome, per model, suite, method and run kind. A planned cell without an attempt is open. Cells
-- that the stop rule skipped (state 'enough') are not counted.
WITH p AS MATERIALIZED (SELECT cell, method, model, suite, run_kind,
    CASE WHEN max(state IN ('planned', 'enough')) THEN max(state) ELSE min(state) END AS state
  FROM plan WHERE sweep IN (SELECT sweep FROM sweeps) AND state IN ('planned',
    'unsupported', 'excluded', 'enough') GROUP BY cell),
w AS (SELECT coalesce(d.shown, c.method, p.method) AS method, p.model, p.suite, p.run_kind,
    c.outcome IS NOT NULL AS there,
    coalesce(c.outcome, iif(p.state = 'planned', 'SKIPPED', upper(p.state))) AS outcome
  FROM p LEFT JOIN cell c ON c.key = p.cell
    LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
  WHERE c.key IS NOT NULL OR p.state <> 'enough'
  UNION ALL SELECT method, model, suite, run_kind, 1, outcome FROM cells_wide
  WHERE key NOT IN (SELECT cell FROM p))
SELECT model, suite, method, run_kind, count(*) AS n_planned, sum(there) AS n_attempted,
  count(*) FILTER (WHERE outcome = 'OK') AS n_ok,
  count(*) FILTER (WHERE outcome = 'UNSUPPORTED') AS n_unsupported,
  count(*) FILTER (WHERE outcome = 'EXCLUDED') AS n_excluded,
  count(*) FILTER (WHERE outcome IN ('SKIPPED', 'INTERRUPTED')) AS n_open,
  count(*) FILTER (WHERE outcome NOT IN ('OK', 'UNSUPPORTED', 'EXCLUDED', 'SKIPPED',
    'INTERRUPTED')) AS n_failed
FROM w GROUP BY model, suite, method, run_kind
ORDER BY model, suite, method, run_kind
