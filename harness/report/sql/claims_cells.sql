-- All cells that claims may use, by method and sample; of several cells of a run on one machine, only the newest.
-- Cells with equal prompt, seed and settings have the same `pair` on all machines. A larger `age` is newer. `two` is
-- true if the prompt's BF16 rollout has a draw with a PSNR below {two} dB.
WITH two AS (SELECT DISTINCT suite, prompt_id FROM chaos_floor
  WHERE name = 'psnr' AND forcing = 'none' AND lowest < {two}),
w AS (SELECT method, suite, prompt_id, seed, root_settings, machine, run_kind, forcing, model, key, finished, compression,
    resident_compression, peak_bytes, resident_bytes, runtime_s, runtime_ratio
  FROM cells_each w WHERE outcome = 'OK' AND NOT is_control AND NOT EXISTS (SELECT 1 FROM cells_each t
    WHERE t.run = w.run AND t.key <> w.key AND t.outcome = 'OK' AND t.machine = w.machine
      AND (t.finished, t.key) > (w.finished, w.key)))
SELECT method, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
  dense_rank() OVER (ORDER BY suite, prompt_id, seed, root_settings, machine) AS sample,
  dense_rank() OVER (ORDER BY suite, prompt_id, seed, root_settings) AS pair,
  dense_rank() OVER (ORDER BY finished) AS age, suite, run_kind, forcing, model, key,
  (suite, prompt_id) IN (SELECT suite, prompt_id FROM two) AS two, compression, resident_compression, peak_bytes,
  resident_bytes, runtime_s, runtime_ratio
FROM w ORDER BY method, sample, key
