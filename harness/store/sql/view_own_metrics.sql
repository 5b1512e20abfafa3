-- Numbers that other programs gave, PROGRAM.SCORE: their unit, and +1 where higher is better, -1 where
-- lower is. NULL: the sweep does not say (`better`). All of VBench's are better when they are higher. How
-- a program was held (PROGRAM.sandbox) is no score.
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
