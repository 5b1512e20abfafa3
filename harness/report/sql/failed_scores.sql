-- External metric programs that failed on cells of the last sweep: program, number of failed cells, number of
-- scored cells, and one reason. Each run of a program adds a metric PROGRAM.sandbox. If the run fails, the values
-- of the program's other metrics are NULL, and their column `missing` has the reason.
SELECT program, count(why) AS failed, count(*) AS cells, max(why) AS why FROM (
  SELECT s.program, s.cell, max(m.missing) AS why
  FROM (SELECT cell, substr(name, 1, length(name) - length('.sandbox')) AS program FROM metric
      WHERE name LIKE '%.sandbox') s
    JOIN plan p ON p.cell = s.cell AND p.sweep = (SELECT sweep FROM sweeps ORDER BY at
      DESC LIMIT 1)
    LEFT JOIN metric m ON m.cell = s.cell AND m.missing <> '' AND m.name <> s.program || '.sandbox'
      AND (m.name = s.program OR substr(m.name, 1, length(s.program) + 1) = s.program || '.')
  GROUP BY s.program, s.cell)
GROUP BY program HAVING count(why) > 0 ORDER BY program
