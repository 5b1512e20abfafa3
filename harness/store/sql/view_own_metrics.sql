-- Metrics PROGRAM.SCORE of external programs, with unit and direction (better: +1 higher, -1 lower, NULL unknown,
-- from the config's `better`). All VBench scores are better when higher. The metric PROGRAM.sandbox, which says how
-- the program was confined, is excluded.
WITH said AS (SELECT DISTINCT json_extract(e.value, '$.name') AS program,
    json_extract(e.value, '$.better') AS better
  FROM cell c, json_each(c.spec, '$.commands') e)
SELECT m.name, max(nullif(m.unit, 'unknown')) AS unit,
  CASE WHEN m.name GLOB 'vbench.*' THEN 1 ELSE (SELECT CASE max(better) WHEN 'higher' THEN 1
    WHEN 'lower' THEN -1 END FROM said WHERE program = substr(m.name, 1, instr(m.name, '.') - 1))
  END AS better
FROM metric m WHERE m.name NOT GLOB '*.sandbox' AND (m.name GLOB 'vbench.*' OR
  substr(m.name, 1, instr(m.name, '.') - 1) IN (SELECT program FROM said))
GROUP BY m.name
