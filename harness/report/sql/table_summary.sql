-- The summary table: the reference, then all methods from the least to the most compressed. The columns for interval
-- ends are empty; kvr_report_add_intervals() and kvr_report_add_ratios() fill them.
SELECT method, reading, 16.0 / compression AS bits, varying_bits, max_varying_bits, compression,
  resident_compression, psnr_db, NULL AS psnr_lo, NULL AS psnr_hi, psnr_floor, psnr_jitter,
  ssim, NULL AS ssim_lo, NULL AS ssim_hi, resident_bytes, peak_bytes,
  runtime_s, NULL AS runtime_lo, NULL AS runtime_hi,
  iif(runtime_s IS NULL, runtime_seen_s, NULL) AS runtime_seen_s, time_codes,
  fps_transformer, fps_vae, fps_taehv,
  iif(fps_transformer IS NULL, fps_transformer_seen, NULL) AS fps_transformer_seen,
  iif(fps_vae IS NULL, fps_vae_seen, NULL) AS fps_vae_seen,
  iif(fps_taehv IS NULL, fps_taehv_seen, NULL) AS fps_taehv_seen,
  iif(fps_transformer_seen IS NULL, NULL, fps_missing) AS fps_missing,
  NULL AS runtime_ratio, NULL AS ratio_lo, NULL AS ratio_hi, NULL AS ratio_codes,
  n_ok || '/' || n_attempted AS n, {group}, machine, warning,
  settings || ', ' || machine AS of_settings
FROM summary
ORDER BY {group}, machine, is_baseline DESC,
  compression IS NULL, round(compression, 3), ssim DESC, method
