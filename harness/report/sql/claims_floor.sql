-- How far the BF16 rollout is from itself when its noise is moved, by metric, over the prompts that
-- have one possible video; and how many have two.
WITH two AS (SELECT DISTINCT suite, prompt_id FROM chaos_floor
  WHERE name = 'psnr' AND forcing = 'none' AND lowest < {two})
SELECT name, avg(mean), (SELECT count(*) FROM two) FROM chaos_floor
WHERE forcing = 'none' AND (suite, prompt_id) NOT IN (SELECT suite, prompt_id FROM two)
  AND '{model}' IN (model, '')
GROUP BY name
