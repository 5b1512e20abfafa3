-- Chaos floor per metric, averaged over prompts with one possible video, and the number of prompts with
-- two: a draw of the BF16 rollout has a PSNR below {two} dB.
WITH two AS (SELECT DISTINCT suite, prompt_id FROM chaos_floor
  WHERE name = 'psnr' AND forcing = 'none' AND lowest < {two})
SELECT name, avg(mean), (SELECT count(*) FROM two) FROM chaos_floor
WHERE forcing = 'none' AND (suite, prompt_id) NOT IN (SELECT suite, prompt_id FROM two)
  AND '{model}' IN (model, '')
GROUP BY name
