-- Jitter: spread of a method's metrics over rollouts with perturbed noise (draws). Each draw is compared with the
-- BF16 rollout of the same noise. sd: standard deviation over draws, pooled over prompts and seeds; widest: largest
-- range (maximum - minimum) of one prompt and seed.
WITH v AS (SELECT DISTINCT r.rollout AS root, c.rollout, coalesce(d.shown, c.method)
    AS method, {r.group}, c.jitter_bits AS moved_bits, m.name, m.value
  FROM cell c JOIN cell b ON b.key = c.baseline JOIN cell r ON r.key = b.baseline
    JOIN metric m ON m.cell = c.key
    LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
  WHERE c.outcome = 'OK' AND c.jitter > 0 AND b.jitter = c.jitter
    AND m.value IS NOT NULL),
p AS (SELECT *, count(*) AS n, avg(value) AS mean, max(value) - min(value) AS width,
    sum(value * value) - count(*) * avg(value) * avg(value) AS off
  FROM v GROUP BY root, method, moved_bits, name)
SELECT method, name, {group}, moved_bits, count(*) AS prompts, sum(n) AS draws, avg(mean) AS mean,
  sqrt(max(0, sum(off)) / sum(n - 1)) AS sd, max(width) AS widest
FROM p WHERE n > 1 GROUP BY method, name, {group}, moved_bits
