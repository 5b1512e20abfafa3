-- Options and components of each method, read from one of its cells. All cells with the same method label have
-- the same options and components.
SELECT method, json_extract(spec, '$.options') AS options_json,
  json_extract(spec, '$.parts') AS parts_json
FROM (SELECT w.method, c.spec,
    row_number() OVER (PARTITION BY w.method ORDER BY c.outcome <> 'OK', c.key) AS rank
  FROM cells_wide w JOIN cell c USING(key))
WHERE rank = 1 ORDER BY method
