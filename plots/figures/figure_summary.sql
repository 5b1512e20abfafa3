-- One point per method, settings and machine: the data of all figures that plot one summary column against another.
SELECT method, family, reading, is_baseline, 16.0 / compression AS bits,
  compression, resident_compression, psnr_db, ssim, resident_bytes,
  peak_bytes, runtime_s, time_codes, n_ok, n_attempted, n_prompts, psnr_floor, ssim_floor, {group}, machine, settings
FROM summary LEFT JOIN (
  SELECT method, settings, machine, count(DISTINCT suite || ' ' || prompt_id) AS n_prompts
  FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench' AND jitter = 0
  GROUP BY method, settings, machine) USING (method, settings, machine)
ORDER BY {group}, method
