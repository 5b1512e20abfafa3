-- The same by a token's age in chunks.
SELECT method, age,
  max(mean) FILTER (WHERE name = 'delta_a') AS delta_a,
  max(mean) FILTER (WHERE name = 'mass_bf16') AS mass_bf16,
  max(mean) FILTER (WHERE name = 'topk_recall') AS topk_recall,
  max(mean) FILTER (WHERE name = 'k_rel_error') AS k_rel_error,
  max(mean) FILTER (WHERE name = 'v_rel_error') AS v_rel_error,
  max(mean) FILTER (WHERE name = 'recodes') AS recodes,
  max(mean) FILTER (WHERE name = 'value_changes') AS value_changes,
  max(n_cells) AS n, {group}
FROM probe_by_age
GROUP BY method, {group}, age
ORDER BY {group}, max(is_baseline) DESC,
  method, age
