-- What a method does to recorded attention: of timed cells bytes, errors of what it answers and the
-- seconds that came by the way; of probed ones what happens to its weights.
WITH w AS MATERIALIZED (SELECT c.*,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'attn_out_rel') AS out_rel,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'attn_out_cos') AS out_cos,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'recorded_rel') AS recorded_rel,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'delta_a') AS delta_a,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'jsd') AS jsd,
    (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'topk_recall') AS topk_recall,
    (SELECT ns / 1e9 FROM sample s WHERE s.cell = c.key AND s.kind = 'encode' AND s.round = 0) AS encode_s,
    (SELECT ns / 1e9 FROM sample s WHERE s.cell = c.key AND s.kind = 'decode' AND s.round = 0) AS decode_s,
    (SELECT ns / 1e9 FROM sample s WHERE s.cell = c.key AND s.kind = 'attend' AND s.round = 0) AS attend_s
  FROM cells_wide c WHERE c.outcome = 'OK'
    AND EXISTS (SELECT 1 FROM metric m WHERE m.cell = c.key AND m.name = 'recorded_rel'))
SELECT method, reading,
  sum(bf16_bytes) FILTER (WHERE run_kind = 'bench') * 1.0 /
    nullif(sum(nominal_bytes) FILTER (WHERE run_kind = 'bench'), 0) AS compression,
  avg(resident_bytes) FILTER (WHERE run_kind = 'bench') AS resident_bytes,
  avg(out_rel) FILTER (WHERE run_kind = 'bench') AS attn_out_rel,
  avg(out_cos) AS attn_out_cos, avg(recorded_rel) AS recorded_rel, avg(delta_a) AS delta_a,
  avg(jsd) AS jsd, avg(topk_recall) AS topk_recall,
  avg(encode_s) FILTER (WHERE run_kind = 'bench') AS encode_s,
  avg(decode_s) FILTER (WHERE run_kind = 'bench') AS decode_s,
  avg(attend_s) FILTER (WHERE run_kind = 'bench') AS attend_s,
  count(DISTINCT prompt_id) AS n, {group}, machine
FROM w GROUP BY method, {group}, machine
ORDER BY {group}, machine, max(is_baseline) DESC, compression IS NULL, round(compression, 3), method
