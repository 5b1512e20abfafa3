-- Pairs of attempts at the same cell that gave different frames. The reason is another machine or build, or a result
-- that is not reproducible.
SELECT a.cell, c.method, c.prompt_id, a.frames_sha256 AS frames_a,
  b.frames_sha256 AS frames_b, sa.host AS host_a, sb.host AS host_b,
  sa.code = sb.code AS same_code, a.session AS session_a, b.session AS session_b
FROM attempt a JOIN attempt b ON a.cell = b.cell AND a.frames_sha256 < b.frames_sha256
JOIN session sa ON sa.id = a.session JOIN session sb ON sb.id = b.session
JOIN cell c ON c.key = a.cell WHERE a.outcome = 'OK' AND b.outcome = 'OK'
