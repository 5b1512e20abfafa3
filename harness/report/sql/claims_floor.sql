-- Chaos floor per metric and the number of excluded prompts. The floor is averaged over the prompts whose BF16
-- draws all have a PSNR of at least {two} dB. A lower PSNR means that the draw is a different video, so these
-- prompts are excluded.
WITH two AS (SELECT DISTINCT suite, prompt_id FROM chaos_floor
  WHERE name = 'psnr' AND forcing = 'none' AND lowest < {two})
SELECT name, avg(mean), (SELECT count(*) FROM two) FROM chaos_floor
WHERE forcing = 'none' AND (suite, prompt_id) NOT IN (SELECT suite, prompt_id FROM two)
  AND '{model}' IN (model, '')
GROUP BY name
