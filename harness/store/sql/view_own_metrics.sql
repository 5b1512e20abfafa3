-- Scores of external programs, PROGRAM.SCORE: unit, and direction (+1 higher is better, -1 lower is better,
-- NULL unknown: see `better`). VBench's are all better when higher. PROGRAM.sandbox, the program's
-- confinement, is excluded.
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
