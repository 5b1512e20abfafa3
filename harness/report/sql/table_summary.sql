-- The reference first, then from the least to the most compressed, as fidelity falls.
SELECT method, reading, 16.0 / compression AS bits, varying_bits, max_varying_bits, compression,
  resident_compression, psnr_db, psnr_floor, psnr_jitter, ssim, resident_bytes, peak_bytes, runtime_s,
  iif(runtime_s IS NULL, runtime_seen_s, NULL) AS runtime_seen_s, time_codes,
  n_ok || '/' || n_attempted AS n, {group}, machine, warning
FROM summary
ORDER BY {group}, machine, is_baseline DESC,
  compression IS NULL, round(compression, 3), ssim DESC, method
