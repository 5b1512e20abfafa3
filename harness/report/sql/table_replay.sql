-- Results of replayed traces. Bytes, output error and time are from cells of kind bench, attention statistics from
-- cells of kind probe. Values are means over traces with 95 % intervals; seeds and repeats are averaged per trace.
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
    AND EXISTS (SELECT 1 FROM metric m WHERE m.cell = c.key AND m.name = 'recorded_rel')),
p AS (SELECT method, reading, {group}, machine, prompt_id, max(is_baseline) AS is_baseline,
    sum(bf16_bytes) FILTER (WHERE run_kind = 'bench') AS bf16_bytes,
    sum(nominal_bytes) FILTER (WHERE run_kind = 'bench') AS nominal_bytes,
    avg(resident_bytes) FILTER (WHERE run_kind = 'bench') AS resident_bytes,
    avg(out_rel) FILTER (WHERE run_kind = 'bench') AS out_rel,
    avg(out_cos) AS out_cos, avg(recorded_rel) AS recorded_rel, avg(delta_a) AS delta_a,
    avg(jsd) AS jsd, avg(topk_recall) AS topk_recall,
    avg(encode_s) FILTER (WHERE run_kind = 'bench') AS encode_s,
    avg(decode_s) FILTER (WHERE run_kind = 'bench') AS decode_s,
    avg(attend_s) FILTER (WHERE run_kind = 'bench') AS attend_s
  FROM w GROUP BY method, {group}, machine, prompt_id)
SELECT method, reading, sum(bf16_bytes) * 1.0 / nullif(sum(nominal_bytes), 0) AS compression,
  avg(resident_bytes) AS resident_bytes,
  avg(out_rel) AS attn_out_rel,
    max(0.0, mean_lo(out_rel)) AS attn_out_rel_lo, mean_hi(out_rel) AS attn_out_rel_hi,
  avg(out_cos) AS attn_out_cos,
    max(-1.0, mean_lo(out_cos)) AS attn_out_cos_lo, min(1.0, mean_hi(out_cos)) AS attn_out_cos_hi,
  avg(recorded_rel) AS recorded_rel,
    max(0.0, mean_lo(recorded_rel)) AS recorded_rel_lo, mean_hi(recorded_rel) AS recorded_rel_hi,
  avg(delta_a) AS delta_a,
    max(-1.0, mean_lo(delta_a)) AS delta_a_lo, min(1.0, mean_hi(delta_a)) AS delta_a_hi,
  avg(jsd) AS jsd, max(0.0, mean_lo(jsd)) AS jsd_lo, min(0.6931471805599453, mean_hi(jsd)) AS jsd_hi,
  avg(topk_recall) AS topk_recall,
    max(0.0, mean_lo(topk_recall)) AS topk_recall_lo, min(1.0, mean_hi(topk_recall)) AS topk_recall_hi,
  avg(encode_s) AS encode_s,
    max(0.0, mean_lo(encode_s)) AS encode_s_lo, mean_hi(encode_s) AS encode_s_hi,
  avg(decode_s) AS decode_s,
    max(0.0, mean_lo(decode_s)) AS decode_s_lo, mean_hi(decode_s) AS decode_s_hi,
  avg(attend_s) AS attend_s,
    max(0.0, mean_lo(attend_s)) AS attend_s_lo, mean_hi(attend_s) AS attend_s_hi,
  count(*) AS n, {group}, machine
FROM p GROUP BY method, {group}, machine
ORDER BY {group}, machine, max(is_baseline) DESC, compression IS NULL, round(compression, 3), method
