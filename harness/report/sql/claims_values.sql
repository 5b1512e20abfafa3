-- One metric for all methods, per sample (prompt, seed, settings, machine), averaged over draws and repeats.
-- Prompts with two possible videos (a BF16 draw below {two} dB) are excluded.
WITH two AS (SELECT DISTINCT suite, prompt_id FROM chaos_floor
  WHERE name = 'psnr' AND forcing = 'none' AND lowest < {two}),
w AS (SELECT *, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
    dense_rank() OVER (ORDER BY suite, prompt_id, seed, root_settings, machine) AS sample
  FROM cells_wide w WHERE outcome = 'OK' AND run_kind = '{kind}' AND forcing = '{forcing}'
    AND NOT is_control AND '{model}' IN (model, '')
    AND (suite, prompt_id) NOT IN (SELECT suite, prompt_id FROM two))
SELECT method, place, sample, avg({value}), suite FROM w
GROUP BY method, place, sample HAVING avg({value}) IS NOT NULL ORDER BY method, sample
