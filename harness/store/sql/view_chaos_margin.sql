-- Equivalence margin of each metric. Perturbed noise alone makes the means of two methods differ by less than the
-- margin in 95 % of cases. sd: standard deviation of a cell over its draws (reruns with perturbed noise), pooled
-- over all methods with draws. If no method has draws, sd is that of the BF16 draws (control = 1). n: number of
-- cells per mean.
WITH s AS (SELECT name, 0 AS control,
    sqrt(sum(sd * sd * (draws - prompts)) / sum(draws - prompts)) AS sd, max(draws + prompts) AS n
  FROM jitter WHERE sd IS NOT NULL GROUP BY name
  UNION ALL SELECT name, 1, sqrt(sum(sd * sd * (draws - roots)) / sum(draws - roots)), max(roots)
  FROM floor WHERE sd IS NOT NULL GROUP BY name)
SELECT name, min(control) AS control, sd, n, 1.96 * sqrt(2.0) * sd / sqrt(n) AS margin
FROM s GROUP BY name
