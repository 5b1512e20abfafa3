-- One row per run. A run is all cells that differ in nothing but their metrics. It is shown as its latest OK cell
-- (without one, its latest cell) with the metrics of all its cells.
SELECT * FROM cells_each c WHERE NOT EXISTS (SELECT 1 FROM cell t WHERE t.run = c.run AND (t.outcome = 'OK',
  t.finished, t.key) > (c.outcome = 'OK', c.finished, c.key))
