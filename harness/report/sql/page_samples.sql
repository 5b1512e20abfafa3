SELECT cell, json_group_object(kind, ms) AS ms_json FROM (SELECT cell, kind,
  round(sum(ns) / 1e6, 3) AS ms FROM sample GROUP BY cell, kind ORDER BY cell, kind)
GROUP BY cell ORDER BY cell
