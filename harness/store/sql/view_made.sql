-- Gives different methods with the same label distinct labels (`shown`), by appending their options that are not at
-- the default. Cells that cannot run are not included.
WITH what AS (SELECT method, made_of, json_extract(made_of, '$[0]') AS plan,
    coalesce((SELECT group_concat(key || '=' || value, ' ')
      FROM json_each(made_of, '$[1]')), '') AS options
  FROM (SELECT DISTINCT method, made_of FROM cell WHERE made_of IS NOT NULL)),
told AS (SELECT *, count(*) OVER (PARTITION BY method) AS n,
    iif(min(plan) OVER (PARTITION BY method) = max(plan) OVER (PARTITION BY method), '',
      ' ' || plan) || iif(options = '', '', ' ' || options) AS behind FROM what)
SELECT method, made_of, CASE WHEN n = 1 THEN method
  WHEN count(*) OVER (PARTITION BY method, behind) = 1
    THEN method || iif(behind = '', ' defaults', behind)
  ELSE method || behind || ' #' || dense_rank() OVER (PARTITION BY method ORDER BY made_of)
  END AS shown FROM told
