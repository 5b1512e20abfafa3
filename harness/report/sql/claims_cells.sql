-- All cells that claims may use. `place` numbers prompts. `pair` numbers combinations of prompt, seed and
-- settings, and `sample` combinations of `pair` and machine. Of several cells of a run on one machine, only the
-- newest is returned. `age` numbers finishing times from the oldest. `two` is true if the prompt may give two
-- different videos: a draw of its BF16 rollout has a PSNR below {two} dB.
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
