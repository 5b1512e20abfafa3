-- Attention statistics by the age of a token in chunks, with 95 % intervals over prompts.
WITH c AS (SELECT c.method, {c.group}, c.suite, c.prompt_id, p.name, p.age, avg(p.value) AS value
  FROM probe p JOIN cells_wide c ON c.key = p.cell
  WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND p.layer IS NULL AND p.age IS NOT NULL
  GROUP BY c.method, {c.group}, c.suite, c.prompt_id, p.name, p.age),
a AS (SELECT method, is_baseline, {group}, name, age, mean, NULL AS lo, NULL AS hi, n_cells
  FROM probe_by_age
  UNION ALL SELECT method, NULL, {group}, name, age, NULL, mean_lo(value), mean_hi(value), NULL
  FROM c GROUP BY method, {group}, name, age)
SELECT method, age,
  max(mean) FILTER (WHERE name = 'delta_a') AS delta_a,
    max(-1.0, max(lo) FILTER (WHERE name = 'delta_a')) AS delta_a_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'delta_a')) AS delta_a_hi,
  max(mean) FILTER (WHERE name = 'mass_bf16') AS mass_bf16,
    max(0.0, max(lo) FILTER (WHERE name = 'mass_bf16')) AS mass_bf16_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'mass_bf16')) AS mass_bf16_hi,
  max(mean) FILTER (WHERE name = 'topk_recall') AS topk_recall,
    max(0.0, max(lo) FILTER (WHERE name = 'topk_recall')) AS topk_recall_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'topk_recall')) AS topk_recall_hi,
  max(mean) FILTER (WHERE name = 'k_rel_error') AS k_rel_error,
    max(0.0, max(lo) FILTER (WHERE name = 'k_rel_error')) AS k_rel_error_lo,
    max(hi) FILTER (WHERE name = 'k_rel_error') AS k_rel_error_hi,
  max(mean) FILTER (WHERE name = 'v_rel_error') AS v_rel_error,
    max(0.0, max(lo) FILTER (WHERE name = 'v_rel_error')) AS v_rel_error_lo,
    max(hi) FILTER (WHERE name = 'v_rel_error') AS v_rel_error_hi,
  max(mean) FILTER (WHERE name = 'recodes') AS recodes,
    max(0.0, max(lo) FILTER (WHERE name = 'recodes')) AS recodes_lo,
    max(hi) FILTER (WHERE name = 'recodes') AS recodes_hi,
  max(mean) FILTER (WHERE name = 'value_changes') AS value_changes,
    max(0.0, max(lo) FILTER (WHERE name = 'value_changes')) AS value_changes_lo,
    max(hi) FILTER (WHERE name = 'value_changes') AS value_changes_hi,
  max(n_cells) AS n, {group}
FROM a
GROUP BY method, {group}, age
ORDER BY {group}, max(is_baseline) DESC, method, age
