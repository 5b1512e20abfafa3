-- One row per cell, with the metrics of its run as columns.
-- machine: CPU, number of CPUs, driver. Times of different machines are not comparable.
-- runtime_s: controlled time (`timing: true`, an idle machine, after a warm-up). Otherwise it is NULL,
--     `runtime_seen_s` is the uncontrolled time, and `time_codes` has the reasons.
-- is_control: whether the cell is a draw of the BF16 rollout.
-- runtime_ratio: time over BF16's in consecutive rollouts (setting `abba`). It is NULL if `time_codes` has a code other
--     than DRIFT; `ratio_codes` has these codes.
-- fps_*: pixel frames per second (setting `fps`) of the transformer alone, and with the VAE or TAEHV decoding each
--     chunk when it is finished, without text encoding and loading. They are NULL unless the time is controlled.
--     fps_*_seen is the uncontrolled value, and fps_missing has the reason.
-- device_bytes: maximum of the device's memory pool. nvml_bytes: the process's device memory at the end of the
--     rollout, from NVML. beyond_bytes: nvml_bytes minus the bytes of the pool and of the CUDA context.
SELECT c.key, coalesce(d.shown, c.method) AS method, c.name, c.reading, c.family,
  c.is_baseline, c.model, c.suite, c.prompt_id, c.prompt, {c.columns}, c.repeat,
  c.outcome, c.reason,
  {c.score:psnr} AS psnr_db,
  {c.score:ssim} AS ssim,
  {c.extra:psnr} AS identical_frames,
  c.bf16_bytes, c.nominal_bytes, c.resident_bytes,
  c.max_nominal_bytes, c.max_resident_bytes,
  c.varying_millibits / 1000.0 AS varying_bits, c.max_varying_millibits / 1000.0 AS max_varying_bits,
  CAST(c.bf16_bytes AS REAL) / nullif(c.nominal_bytes, 0) AS compression,
  CAST(c.bf16_bytes AS REAL) / nullif(c.resident_bytes, 0) AS resident_compression,
  c.peak_bytes, c.host_peak_bytes, iif(c.why = '', c.wall_ns / 1e9, NULL) AS runtime_s,
  c.wall_ns / 1e9 AS runtime_seen_s, c.why AS time_codes,
  iif(c.no_ratio = '', iif(c.is_baseline, 1.0, {c.score:runtime_ratio}), NULL) AS runtime_ratio,
  c.no_ratio AS ratio_codes,
  iif(c.why = '', {c.score:fps_transformer}, NULL) AS fps_transformer,
  iif(c.why = '', {c.score:fps_vae}, NULL) AS fps_vae,
  iif(c.why = '', {c.score:fps_taehv}, NULL) AS fps_taehv,
  {c.score:fps_transformer} AS fps_transformer_seen, {c.score:fps_vae} AS fps_vae_seen,
  {c.score:fps_taehv} AS fps_taehv_seen,
  iif(c.fps, nullif(trim(c.why || coalesce('; transformer: ' || (SELECT missing FROM metric WHERE cell = c.key AND
    name = 'fps_transformer'), '') || coalesce('; vae: ' || (SELECT missing FROM metric WHERE cell = c.key AND
    name = 'fps_vae'), '') || coalesce('; taehv: ' || (SELECT missing FROM metric WHERE cell = c.key AND
    name = 'fps_taehv'), ''), '; '), ''), 'not measured: fps: true') AS fps_missing, c.attempt, c.session, c.finished,
  c.verdict, c.verdict_codes, c.device_bytes,
  {c.score:nvml_rollout_bytes} AS nvml_bytes, {c.score:nvml_context_bytes} AS context_bytes,
  {c.score:nvml_rollout_bytes} - {c.score:nvml_context_bytes} - c.device_bytes AS beyond_bytes,
  (SELECT missing FROM metric WHERE cell = c.key AND name = 'nvml_rollout_bytes') AS nvml_missing,
  s.cpu_model || ', ' || s.n_cpus || ' CPUs' || iif(s.driver = 'none: cpu', '', ', ' ||
    s.driver) || coalesce((SELECT ' #' || a.value FROM about a WHERE a.session = s.id
    AND a.name = 'machine'), '') AS machine, s.code, c.rollout, c.run,
  nullif(c.warning, 'baseline: added by default (`baselines: none` omits it)') AS warning,
  {c.settings} AS settings,
  {c.root_settings} AS root_settings, c.jitter > 0 AND EXISTS (SELECT 1 FROM cell b
    WHERE b.key = c.baseline AND b.jitter = 0) AS is_control
FROM (SELECT *, iif(abba = 0, 'NO_PAIRS', trim(replace(why, 'DRIFT', ''))) AS no_ratio
    FROM (SELECT *, coalesce(time_codes, iif(timing, verdict_codes,
      trim('UNTIMED ' || verdict_codes))) AS why FROM cell)) c JOIN session s ON s.id = c.session
  LEFT JOIN made d ON d.method = c.method AND d.made_of = c.made_of
