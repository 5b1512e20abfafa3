SELECT w.method, w.root_settings || ', ' || w.machine AS settings,
  dense_rank() OVER (ORDER BY w.suite, w.prompt_id) AS prompt, w.seed,
  iif(w.outcome = 'OK', w.ssim, NULL), iif(w.outcome = 'OK', w.psnr_db, NULL),
  w.runtime_s, iif(w.outcome = 'OK', w.bf16_bytes, NULL),
  iif(w.outcome = 'OK', w.nominal_bytes, NULL), w.outcome = 'OK'
FROM cells_wide w WHERE w.run_kind = 'bench' AND NOT w.is_control
ORDER BY settings, w.is_baseline DESC, w.method
