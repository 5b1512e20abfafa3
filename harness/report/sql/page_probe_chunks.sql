-- Attention statistics of each cell by the chunk of the queries, averaged over layers, heads and passes.
SELECT cell, name, json_group_array(round(value, 6)) AS value_json
FROM (SELECT cell, name, chunk, value FROM probe
  WHERE layer IS NULL AND head IS NULL AND step IS NULL AND age IS NULL AND chunk IS NOT NULL
  ORDER BY cell, name, chunk)
GROUP BY cell, name ORDER BY cell, name
