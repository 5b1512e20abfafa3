-- MiB per allocator tag after each forward pass, and at the time when the total over all tags was largest.
SELECT c.method, c.family, max(c.is_baseline) AS is_baseline, c.settings,
  p.idx AS x, avg(p.kv_bytes) / 1048576.0 AS kv,
  avg(p.meta_bytes) / 1048576.0 AS meta,
  avg(p.scratch_bytes) / 1048576.0 AS scratch,
  avg(p.act_bytes) / 1048576.0 AS act, avg(p.io_bytes) / 1048576.0 AS io,
  max(c.peak_bytes) / 1048576.0 AS peak,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'KV')) / 1048576.0 AS at_kv,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'META')) / 1048576.0 AS at_meta,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'SCRATCH')) / 1048576.0 AS at_scratch,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'ACT')) / 1048576.0 AS at_act,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'IO')) / 1048576.0 AS at_io,
  avg((SELECT at_peak FROM mem m WHERE m.cell = c.key AND m.tag = 'WEIGHTS')) / 1048576.0 AS at_weights
FROM pass p JOIN cells_wide c ON c.key = p.cell WHERE c.outcome = 'OK' AND c.run_kind = 'bench'
  AND c.jitter = 0
GROUP BY c.settings, c.method, p.idx
ORDER BY settings, is_baseline DESC, method, x
