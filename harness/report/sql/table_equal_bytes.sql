-- SSIM, PSNR, time and bytes of each cell. The cells are ordered by budget (`budget_bits`, bits per element of the
-- BF16 cache); cells without a budget are last.
SELECT w.method, w.root_settings || ', ' || w.machine AS settings,
  dense_rank() OVER (ORDER BY w.suite, w.prompt_id) AS prompt, w.seed,
  iif(w.outcome = 'OK', w.ssim, NULL), iif(w.outcome = 'OK', w.psnr_db, NULL),
  w.runtime_s, iif(w.outcome = 'OK', w.bf16_bytes, NULL),
  iif(w.outcome = 'OK', w.nominal_bytes, NULL), w.outcome = 'OK',
  iif(json_extract(c.spec, '$.budget_bits') IS NULL, 'no budget',
    printf('%g bits', json_extract(c.spec, '$.budget_bits'))) AS budget
FROM cells_wide w JOIN cell c USING(key) WHERE w.run_kind = 'bench' AND NOT w.is_control
ORDER BY settings, json_extract(c.spec, '$.budget_bits') IS NULL,
  json_extract(c.spec, '$.budget_bits'), w.is_baseline DESC, w.method
