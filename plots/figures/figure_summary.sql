-- One point for each method, settings and machine: what every figure of two axes is drawn of.
SELECT method, family, reading, is_baseline, 16.0 / compression AS bits,
  compression, resident_compression, psnr_db, ssim, resident_bytes,
  peak_bytes, runtime_s, time_codes, n_ok, n_attempted, psnr_floor, ssim_floor, {group}, machine, settings
FROM summary ORDER BY {group}, method
