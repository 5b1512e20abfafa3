-- Attention statistics of each method by the age of the attended tokens, in chunks.
SELECT method, settings, name, json_group_array(age) AS age_json,
  json_group_array(round(mean, 6)) AS mean_json
FROM (SELECT * FROM probe_by_age ORDER BY method, settings, name, age)
GROUP BY method, settings, name ORDER BY method, settings, name
