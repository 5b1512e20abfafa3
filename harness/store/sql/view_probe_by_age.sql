SELECT c.method, max(c.is_baseline) AS is_baseline, {c.group}, max(c.family) AS family,
  c.settings, p.name, p.age, avg(p.value) AS mean, sum(p.n) AS n,
  count(DISTINCT p.cell) AS n_cells
FROM probe p JOIN cells_wide c ON c.key = p.cell
WHERE c.outcome = 'OK' AND p.layer IS NULL AND p.age IS NOT NULL AND p.value IS NOT NULL
GROUP BY c.method, {c.group}, p.name, p.age
