-- Attention statistics over all heads, with 95 % intervals over prompts.
WITH c AS (SELECT c.method, {c.group}, c.suite, c.prompt_id, p.name, avg(p.value) AS value
  FROM probe p JOIN cells_wide c ON c.key = p.cell
  WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND p.layer IS NOT NULL
    AND (p.head IS NOT NULL OR p.name IN ('recodes', 'value_changes'))
    AND p.step IS NULL AND p.chunk IS NULL AND p.age IS NULL
  GROUP BY c.method, {c.group}, c.suite, c.prompt_id, p.name),
a AS (SELECT method, is_baseline, {group}, name, mean, median, p95, NULL AS lo, NULL AS hi, n_cells
  FROM probe_summary
  UNION ALL SELECT method, NULL, {group}, name, NULL, NULL, NULL, mean_lo(value), mean_hi(value), NULL
  FROM c GROUP BY method, {group}, name)
SELECT method,
  max(mean) FILTER (WHERE name = 'delta_a') AS delta_a,
    max(-1.0, max(lo) FILTER (WHERE name = 'delta_a')) AS delta_a_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'delta_a')) AS delta_a_hi,
  max(median) FILTER (WHERE name = 'delta_a') AS delta_a_median,
  max(p95) FILTER (WHERE name = 'delta_a') AS delta_a_p95,
  max(mean) FILTER (WHERE name = 'mass_bf16') AS mass_bf16,
    max(0.0, max(lo) FILTER (WHERE name = 'mass_bf16')) AS mass_bf16_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'mass_bf16')) AS mass_bf16_hi,
  max(mean) FILTER (WHERE name = 'keys_bf16') AS keys_bf16,
    max(0.0, max(lo) FILTER (WHERE name = 'keys_bf16')) AS keys_bf16_lo,
    max(hi) FILTER (WHERE name = 'keys_bf16') AS keys_bf16_hi,
  max(mean) FILTER (WHERE name = 'jsd') AS jsd,
    max(0.0, max(lo) FILTER (WHERE name = 'jsd')) AS jsd_lo,
    min(0.6931471805599453, max(hi) FILTER (WHERE name = 'jsd')) AS jsd_hi,
  max(mean) FILTER (WHERE name = 'attn_out_rel') AS attn_out_rel,
    max(0.0, max(lo) FILTER (WHERE name = 'attn_out_rel')) AS attn_out_rel_lo,
    max(hi) FILTER (WHERE name = 'attn_out_rel') AS attn_out_rel_hi,
  max(mean) FILTER (WHERE name = 'attn_out_rel_k') AS attn_out_rel_k,
    max(0.0, max(lo) FILTER (WHERE name = 'attn_out_rel_k')) AS attn_out_rel_k_lo,
    max(hi) FILTER (WHERE name = 'attn_out_rel_k') AS attn_out_rel_k_hi,
  max(mean) FILTER (WHERE name = 'attn_out_rel_v') AS attn_out_rel_v,
    max(0.0, max(lo) FILTER (WHERE name = 'attn_out_rel_v')) AS attn_out_rel_v_lo,
    max(hi) FILTER (WHERE name = 'attn_out_rel_v') AS attn_out_rel_v_hi,
  max(mean) FILTER (WHERE name = 'top1_agreement') AS top1_agreement,
    max(0.0, max(lo) FILTER (WHERE name = 'top1_agreement')) AS top1_agreement_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'top1_agreement')) AS top1_agreement_hi,
  max(mean) FILTER (WHERE name = 'topk_recall') AS topk_recall,
    max(0.0, max(lo) FILTER (WHERE name = 'topk_recall')) AS topk_recall_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'topk_recall')) AS topk_recall_hi,
  max(mean) FILTER (WHERE name = 'mass_on_zero') AS mass_on_zero,
    max(0.0, max(lo) FILTER (WHERE name = 'mass_on_zero')) AS mass_on_zero_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'mass_on_zero')) AS mass_on_zero_hi,
  max(mean) FILTER (WHERE name = 'mass_on_summary') AS mass_on_summary,
    max(0.0, max(lo) FILTER (WHERE name = 'mass_on_summary')) AS mass_on_summary_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'mass_on_summary')) AS mass_on_summary_hi,
  max(mean) FILTER (WHERE name = 'mass_lost') AS mass_lost,
    max(0.0, max(lo) FILTER (WHERE name = 'mass_lost')) AS mass_lost_lo,
    min(1.0, max(hi) FILTER (WHERE name = 'mass_lost')) AS mass_lost_hi,
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
GROUP BY method, {group}
ORDER BY {group}, max(is_baseline) DESC, method
