SELECT c.key, w.method, c.name, c.reading, c.family, c.is_baseline, c.model, c.suite,
  c.prompt_id, {c.columns}, w.settings || ', ' || w.machine AS settings,
  w.settings AS plain, w.warning, c.repeat, c.outcome, c.reason, c.log_tail AS log,
  c.attempt, c.session, c.verdict, c.verdict_codes, c.started, c.finished, c.baseline,
  c.host_peak_bytes AS host_peak, c.live_start_bytes AS live_start,
  c.live_end_bytes AS live_end, c.model_sha256,
  w.machine, round(w.runtime_s, 4) AS runtime,
  round(w.runtime_seen_s, 4) AS runtime_seen, w.time_codes, c.bf16_bytes AS bf16,
  c.nominal_bytes AS nominal, c.resident_bytes AS resident, c.peak_bytes AS peak,
  round(w.psnr_db, 4) AS psnr, round(w.ssim, 6) AS ssim
FROM cell c JOIN cells_wide w USING(key) WHERE c.jitter = 0
ORDER BY c.model, c.is_baseline DESC, w.method, c.suite, c.prompt_id, c.seed,
  c.repeat, c.key
