-- What attention does, over all heads.
SELECT method,
  max(mean) FILTER (WHERE name = 'delta_a') AS delta_a,
  max(median) FILTER (WHERE name = 'delta_a') AS delta_a_median,
  max(p95) FILTER (WHERE name = 'delta_a') AS delta_a_p95,
  max(mean) FILTER (WHERE name = 'mass_bf16') AS mass_bf16,
  max(mean) FILTER (WHERE name = 'keys_bf16') AS keys_bf16,
  max(mean) FILTER (WHERE name = 'jsd') AS jsd,
  max(mean) FILTER (WHERE name = 'attn_out_rel') AS attn_out_rel,
  max(mean) FILTER (WHERE name = 'attn_out_rel_k') AS attn_out_rel_k,
  max(mean) FILTER (WHERE name = 'attn_out_rel_v') AS attn_out_rel_v,
  max(mean) FILTER (WHERE name = 'top1_agreement') AS top1_agreement,
  max(mean) FILTER (WHERE name = 'topk_recall') AS topk_recall,
  max(mean) FILTER (WHERE name = 'mass_on_zero') AS mass_on_zero,
  max(mean) FILTER (WHERE name = 'mass_on_summary') AS mass_on_summary,
  max(mean) FILTER (WHERE name = 'mass_lost') AS mass_lost,
  max(mean) FILTER (WHERE name = 'k_rel_error') AS k_rel_error,
  max(mean) FILTER (WHERE name = 'v_rel_error') AS v_rel_error,
  max(mean) FILTER (WHERE name = 'recodes') AS recodes,
  max(mean) FILTER (WHERE name = 'value_changes') AS value_changes,
  max(n_cells) AS n, {group}
FROM probe_summary
GROUP BY method, {group}
ORDER BY {group}, max(is_baseline) DESC,
  method
