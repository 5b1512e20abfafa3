-- Attention statistics: mean, median and 95th percentile (nearest rank) over all heads of all layers.
WITH r AS (SELECT *,
    row_number() OVER (PARTITION BY method, {group}, name ORDER BY value) AS rank,
    count(*) OVER (PARTITION BY method, {group}, name) AS heads FROM probe_heads)
SELECT method, max(is_baseline) AS is_baseline, {group},
  name, avg(value) AS mean,
  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,
  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,
  heads, max(n_cells) AS n_cells
FROM r GROUP BY method, {group}, name
