-- One row per run. Cells that differ in their metrics only are one run, shown as the latest OK cell with the
-- metrics of all.
SELECT * FROM cells_each c WHERE NOT EXISTS (SELECT 1 FROM cell t WHERE t.run = c.run AND (t.outcome = 'OK',
  t.finished, t.key) > (c.outcome = 'OK', c.finished, c.key))
