-- Attention statistics by layer: mean, median and 95th percentile (nearest rank) over the layer's heads.
WITH r AS (SELECT *,
    row_number() OVER (PARTITION BY method, {group}, name, layer ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY method, {group}, name, layer) AS heads FROM probe_heads)
SELECT method, max(is_baseline) AS is_baseline, {group},
  name, layer, avg(value) AS mean,
  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,
  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,
  heads, max(n_cells) AS n_cells
FROM r GROUP BY method, {group}, name, layer
