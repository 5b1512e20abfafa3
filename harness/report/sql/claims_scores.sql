-- The value of one metric for each cell, ordered by cell key. If the cell lacks the metric, the value comes from
-- the newest other cell of the same run and machine.
SELECT w.key, coalesce((SELECT value FROM metric WHERE cell = w.key AND name = '{metric}'),
  (SELECT m.value FROM cell t JOIN metric m ON m.cell = t.key AND m.name = '{metric}'
    WHERE t.run = w.run AND t.key <> w.key AND m.value IS NOT NULL
      AND (SELECT value FROM about WHERE session = t.session AND name = 'machine')
        IS (SELECT value FROM about WHERE session = w.session AND name = 'machine')
    ORDER BY t.finished DESC LIMIT 1))
FROM cell w WHERE w.outcome = 'OK' ORDER BY w.key
