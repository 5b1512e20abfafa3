-- Attention statistics with 95 % intervals over prompts: over all heads, by layer, or by the age of a
-- token in chunks. Placeholders:
--     {axis}        "", ", layer" or ", age"; {p.axis} is the same column of table `probe`
--     {source}      view that has the means
--     {spread}      columns or NULL for median and 95th percentile
--     {rows}        condition that selects the rows of `probe` for the intervals
--     {quantities}  the statistics shown as columns (harness/report/probe_columns.h)
WITH c AS (SELECT c.method, {c.group}, c.suite, c.prompt_id, p.name{p.axis}, avg(p.value) AS value
  FROM probe p JOIN cells_wide c ON c.key = p.cell
  WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND {rows}
  GROUP BY c.method, {c.group}, c.suite, c.prompt_id, p.name{p.axis}),
a AS (SELECT method, is_baseline, {group}, name{axis}, mean, {spread}, NULL AS lo, NULL AS hi, n_cells
  FROM {source}
  UNION ALL SELECT method, NULL, {group}, name{axis}, NULL, NULL, NULL, mean_lo(value), mean_hi(value), NULL
  FROM c GROUP BY method, {group}, name{axis})
SELECT method{axis},
{quantities}
  max(n_cells) AS n, {group}
FROM a
GROUP BY method, {group}{axis}
ORDER BY {group}, max(is_baseline) DESC, method{axis}
