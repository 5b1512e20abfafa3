SELECT cell, json_group_object(tag, at_peak) AS at_peak_json FROM
  (SELECT cell, tag, at_peak FROM mem ORDER BY cell, tag) GROUP BY cell
ORDER BY cell
