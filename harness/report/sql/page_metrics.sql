-- All metrics of each run. A run has one cell in cells_wide, and its metrics are listed under this cell's key.
-- Values of that cell take precedence over those of the run's other cells.
SELECT cell, json_group_object(name, round(value, 6)) AS value_json FROM
  (SELECT w.key AS cell, m.name, m.value, row_number() OVER (PARTITION BY w.key, m.name
     ORDER BY t.key = w.key DESC, t.finished DESC) AS rank
   FROM cells_wide w JOIN cell t ON t.run = w.run JOIN metric m ON m.cell = t.key
   WHERE m.value IS NOT NULL AND m.name NOT IN ('psnr', 'ssim')
     AND (instr(m.name, '.') = 0 OR m.name IN (SELECT name FROM own_metrics)) ORDER BY 1, 2)
WHERE rank = 1 GROUP BY cell ORDER BY cell
