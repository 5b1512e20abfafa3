-- How complete the table is.
SELECT model, suite, method, run_kind, count(*) AS n_attempted,
  count(*) FILTER (WHERE outcome = 'OK') AS n_ok,
  count(*) FILTER (WHERE outcome = 'UNSUPPORTED') AS n_unsupported,
  count(*) FILTER (WHERE outcome IN ('SKIPPED', 'INTERRUPTED')) AS n_open,
  count(*) FILTER (WHERE outcome NOT IN ('OK', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED'))
    AS n_failed
FROM cells_wide GROUP BY model, suite, method, run_kind
ORDER BY model, suite, method, run_kind
