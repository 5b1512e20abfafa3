-- Attention statistics of each method: mean, median and 95th percentile over all heads of all layers.
SELECT s.method, r.settings, s.name, s.mean, s.median, s.p95, s.heads, s.n_cells AS n
FROM probe_summary s JOIN (SELECT DISTINCT method, {group}, settings FROM probe_heads) r
  USING(method, {group})
ORDER BY s.method, s.name
