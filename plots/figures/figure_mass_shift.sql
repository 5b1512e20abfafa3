-- Cumulative distribution over heads of delta_a, by how much a method changes the attention mass on cached tokens.
SELECT method, family, is_baseline, settings, value AS x,
  cume_dist() OVER (PARTITION BY method, {group} ORDER BY value) AS y
FROM probe_heads h WHERE name = 'delta_a' AND is_baseline = 0
ORDER BY settings, is_baseline DESC, method, x
