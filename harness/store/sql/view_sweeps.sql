-- Newest plan of each config with its command-line overrides, and how far it has run. note: number of open cells
-- (not yet run) and of failed cells, '' if there are none. left_s: remaining seconds, predicted from the speed of
-- the finished cells. at: time when the last run began, to the nanosecond if known; in all commands the last sweep
-- is the one with the largest `at`.
WITH last AS (SELECT w.id, w.name, w.config, w.cells, s.id AS session, s.jobs,
    max(coalesce(strftime('%Y-%m-%dT%H:%M:%S', CAST(b.value AS INTEGER) / 1000000000, 'unixepoch') ||
      printf('.%09dZ', CAST(b.value AS INTEGER) % 1000000000), s.started)) AS at, s.started
  FROM sweep w JOIN about a ON a.name = 'sweep' AND a.value = w.id
    JOIN session s ON s.id = a.session
    LEFT JOIN about b ON b.session = s.id AND b.name = 'began_ns' GROUP BY w.config),
n AS (SELECT l.id, count(*) FILTER (WHERE c.outcome = 'OK') AS n_ok,
    count(*) FILTER (WHERE coalesce(c.outcome, upper(p.state)) = 'EXCLUDED') AS n_excluded,
    count(*) FILTER (WHERE coalesce(c.outcome, upper(p.state)) = 'UNSUPPORTED')
      AS n_unsupported,
    count(*) FILTER (WHERE coalesce(c.outcome, 'SKIPPED') IN ('SKIPPED', 'INTERRUPTED')
      AND p.state = 'planned') AS n_open,
    count(*) FILTER (WHERE c.key IS NULL AND p.state = 'enough') AS n_enough,
    count(*) FILTER (WHERE c.outcome NOT IN ('OK', 'EXCLUDED', 'UNSUPPORTED', 'SKIPPED',
      'INTERRUPTED')) AS n_failed,
    sum(p.cost) FILTER (WHERE coalesce(c.outcome, 'SKIPPED') IN ('SKIPPED', 'INTERRUPTED')
      AND p.state = 'planned') AS cost_left,
    sum(p.cost) FILTER (WHERE x.ns > 0) AS cost_done, sum(x.ns) AS ns_done
  FROM last l JOIN plan p ON p.sweep = l.id LEFT JOIN cell c ON c.key = p.cell
    LEFT JOIN sample x ON x.cell = c.key AND x.kind = 'cell' AND c.outcome = 'OK'
  GROUP BY l.id),
told AS (SELECT l.*, n.*, (SELECT value FROM about a WHERE a.session = l.session
    AND a.name = 'state') AS state, (SELECT group_concat(a.name || ' ' || a.value, ', ')
    FROM about a WHERE a.session = l.session AND a.name IN ('filter', 'limit', 'shard',
    'budget')) AS narrowed FROM last l JOIN n USING (id))
SELECT id AS sweep, name, config, session, started, state, cells, n_ok, n_failed,
  n_unsupported, n_excluded, n_open, n_enough,
  (SELECT count(*) FROM running r WHERE r.session = told.session) AS n_running,
  coalesce(cost_left, 0) / nullif(cost_done, 0) * ns_done / jobs / 1e9 AS left_s, narrowed,
  iif(n_open = 0, '', n_open || ' of ' || cells || ' cells open' || iif(state IS NULL OR
    state = 'done', '', ', ' || state) || coalesce(', ' || narrowed, '')) ||
  iif(n_failed = 0, '', iif(n_open = 0, '', '; ') || n_failed || ' of ' || cells ||
    ' cells failed') AS note, at
FROM told
