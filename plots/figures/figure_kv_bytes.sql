-- Bytes of the KV cache after each forward pass of the rollout.
SELECT c.method, c.family, max(c.is_baseline) AS is_baseline, c.settings,
  p.idx AS x, avg(p.resident_bytes) / 1048576.0 AS y
FROM pass p JOIN cells_wide c ON c.key = p.cell WHERE c.outcome = 'OK' AND c.run_kind = 'bench'
  AND c.jitter = 0
GROUP BY c.settings, c.method, p.idx
ORDER BY settings, is_baseline DESC, method, x
