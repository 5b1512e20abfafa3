-- Cumulative distribution over heads of the change of the attention mass on the cache (delta_a).
SELECT method, family, is_baseline, settings, value AS x,
  cume_dist() OVER (PARTITION BY method, {group} ORDER BY value) AS y
FROM probe_heads h WHERE name = 'delta_a' AND is_baseline = 0
ORDER BY settings, is_baseline DESC, method, x
