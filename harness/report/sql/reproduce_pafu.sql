-- Results with the columns of PaFu-KV's cache-size table: number of kept frames or tokens, and metrics of the video.
-- The budget is parsed from the retention in a cell's spec, such as keep(score=...,frames=3,tokens=0,...).
WITH kept AS (SELECT w.*, json_extract(c.spec, '$.parts.retention') AS keep,
    {w.score:linear_smoothness} AS linear_smoothness, {w.score:sharpness} AS sharpness,
    {w.score:ssim.drift} AS "ssim.drift"
  FROM cells_wide w JOIN cell c USING(key) WHERE w.outcome = 'OK' AND w.run_kind = 'bench'
  AND w.jitter = 0 AND w.forcing = 'none' AND w.reading = 'intended' AND w.family = 'PAFU'),
ours AS (SELECT *, CAST(substr(keep, instr(keep, ',frames=') + 8) AS REAL) AS frames_kept,
    CAST(substr(keep, instr(keep, ',tokens=') + 8) AS INTEGER) AS tokens_kept,
    CAST(substr(keep, instr(keep, ',sink=') + 6) AS INTEGER) AS sink_kept FROM kept)
SELECT name, model, frames, sink_kept AS sink, count(*) AS n, avg(ssim) AS ssim,
  avg(linear_smoothness) AS linear_smoothness, avg(sharpness) AS sharpness,
  avg("ssim.drift") AS "ssim.drift", max(resident_bytes) * 1.0 AS resident_bytes,
  iif(tokens_kept, tokens_kept || ' tokens', printf('%g', frames_kept) || ' frames') AS budget
FROM ours GROUP BY name, model, frames, sink_kept, budget
ORDER BY model, frames, name, sink_kept DESC, tokens_kept, frames_kept DESC
