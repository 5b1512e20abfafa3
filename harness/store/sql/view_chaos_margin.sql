-- Equivalence margin: 95 % of differences between two methods' means that are caused by chaos alone are
-- smaller. s: standard deviation of one cell over its draws, pooled over the methods with draws, else of
-- the control; n: cells per mean.
WITH s AS (SELECT name, 0 AS control,
    sqrt(sum(sd * sd * (draws - prompts)) / sum(draws - prompts)) AS sd, max(draws + prompts) AS n
  FROM jitter WHERE sd IS NOT NULL GROUP BY name
  UNION ALL SELECT name, 1, sqrt(sum(sd * sd * (draws - roots)) / sum(draws - roots)), max(roots)
  FROM floor WHERE sd IS NOT NULL GROUP BY name)
SELECT name, min(control) AS control, sd, n, 1.96 * sqrt(2.0) * sd / sqrt(n) AS margin
FROM s GROUP BY name
