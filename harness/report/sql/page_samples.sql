SELECT cell, json_group_object(kind, ms) AS ms_json FROM (SELECT cell, kind,
  sum(ns) / 1000000 AS ms FROM sample GROUP BY cell, kind ORDER BY cell, kind)
GROUP BY cell ORDER BY cell
