-- Attention statistics by layer and head, averaged over cells (prompts and seeds). A statistic that does not depend
-- on the head has one row per layer.
SELECT c.method, c.is_baseline, {c.group}, max(c.family) AS family, c.settings,
  p.name, p.layer, p.head, avg(p.value) AS value, sum(p.n) AS n,
  count(DISTINCT p.cell) AS n_cells
FROM probe p JOIN cells_wide c ON c.key = p.cell
WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND p.layer IS NOT NULL
  AND (p.head IS NOT NULL OR p.name IN ('recodes', 'value_changes'))
  AND p.step IS NULL AND p.chunk IS NULL AND p.age IS NULL
GROUP BY c.method, {c.group}, p.name, p.layer, p.head
