-- Chaos floor by prompt and metric: the metric of BF16 rollouts with perturbed noise (draws) against the unperturbed
-- BF16 rollout.
WITH v AS (SELECT DISTINCT r.rollout AS root, c.rollout, r.method, r.suite, r.prompt_id,
    r.model, {r.columns}, c.jitter_bits AS moved_bits, m.name, m.value
  FROM cell c JOIN cell r ON r.key = c.baseline JOIN metric m ON m.cell = c.key
  WHERE c.outcome = 'OK' AND c.jitter > 0 AND r.jitter = 0 AND m.value IS NOT NULL)
SELECT v.*, count(*) AS draws, avg(value) AS mean, min(value) AS lowest,
  max(value) AS highest,
  sum(value * value) - count(*) * avg(value) * avg(value) AS off
FROM v GROUP BY root, moved_bits, name
