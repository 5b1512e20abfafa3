-- chaos_floor pooled over prompts. roots: number of unperturbed BF16 rollouts (prompts times seeds); sd: standard
-- deviation over the draws of a rollout, pooled over rollouts.
SELECT {group}, moved_bits, name, count(DISTINCT suite || '/' || prompt_id) AS prompts,
  count(*) AS roots, sum(draws) AS draws, avg(mean) AS mean, min(lowest) AS lowest,
  max(highest) AS highest,
  sqrt(max(0, sum(off)) / nullif(sum(draws - 1), 0)) AS sd
FROM chaos_floor GROUP BY {group}, moved_bits, name
