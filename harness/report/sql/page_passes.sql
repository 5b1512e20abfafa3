-- Bytes per allocator tag after each forward pass: a JSON array per tag, or one number if the bytes never change.
SELECT cell, count(*) AS n,
  CASE WHEN min(kv_bytes) = max(kv_bytes) THEN min(kv_bytes)
    ELSE json_group_array(kv_bytes) END AS kv_json,
  CASE WHEN min(meta_bytes) = max(meta_bytes) THEN min(meta_bytes)
    ELSE json_group_array(meta_bytes) END AS meta_json,
  CASE WHEN min(scratch_bytes) = max(scratch_bytes) THEN min(scratch_bytes)
    ELSE json_group_array(scratch_bytes) END AS scratch_json,
  CASE WHEN min(weights_bytes) = max(weights_bytes) THEN min(weights_bytes)
    ELSE json_group_array(weights_bytes) END AS weights_json,
  CASE WHEN min(act_bytes) = max(act_bytes) THEN min(act_bytes)
    ELSE json_group_array(act_bytes) END AS act_json,
  CASE WHEN min(io_bytes) = max(io_bytes) THEN min(io_bytes)
    ELSE json_group_array(io_bytes) END AS io_json
FROM (SELECT * FROM pass ORDER BY cell, idx) GROUP BY cell ORDER BY cell
