-- Options and parts of each method label, read from one of its cells; all cells of a label have the same.
SELECT method, json_extract(spec, '$.options') AS options_json,
  json_extract(spec, '$.parts') AS parts_json
FROM (SELECT w.method, c.spec,
    row_number() OVER (PARTITION BY w.method ORDER BY c.outcome <> 'OK', c.key) AS rank
  FROM cells_wide w JOIN cell c USING(key))
WHERE rank = 1 ORDER BY method
