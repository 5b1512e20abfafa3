-- Attention statistics of each method by layer: mean, minimum and maximum over the layer's heads.
SELECT method, settings, name, json_group_array(layer) AS layer_json,
  json_group_array(mean) AS mean_json, json_group_array(lo) AS lo_json,
  json_group_array(hi) AS hi_json
FROM (SELECT method, settings, name, layer, round(avg(value), 6) AS mean,
    round(min(value), 6) AS lo, round(max(value), 6) AS hi
  FROM probe_heads GROUP BY method, settings, name, layer
  ORDER BY method, settings, name, layer)
GROUP BY method, settings, name ORDER BY method, settings, name
