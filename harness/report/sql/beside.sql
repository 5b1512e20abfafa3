-- Names of the default baselines (harness/plan/baselines.h) that have no cell in the database, joined by commas.
-- Returns no row if all have cells. Baselines with a shorter window apply to video models only.
WITH v(i, name, title) AS (VALUES (1, 'INT8_PTH', 'INT8'), (2, 'FP8_PTH', 'FP8'),
  (3, 'ROLLING_WINDOW', 'BF16 over a shorter window of the same bytes'))
SELECT missing FROM (
  SELECT group_concat(title || ' (' || name || ')', ', ') AS missing
  FROM (SELECT * FROM v ORDER BY i) AS v WHERE v.name NOT IN (SELECT name FROM cell)
    AND EXISTS (SELECT 1 FROM cell WHERE name <> 'BF16' AND outcome = 'OK'
      AND (v.name <> 'ROLLING_WINDOW' OR chunk = 0)))
WHERE missing IS NOT NULL
