-- Effect of a compressed prefix on a language model. A run, which is one text, has one row per prefix length and
-- one over all scored tokens (prefix_tokens NULL). `d_nll` and `mass_shift` are the change of the negative
-- log-likelihood and of the attention mass against the BF16 cache with the same text, settings and machine.
WITH w AS MATERIALIZED (SELECT * FROM cells_wide WHERE outcome = 'OK' AND run_kind = 'bench'
    AND EXISTS (SELECT 1 FROM metric m WHERE m.cell = key AND m.name = 'nll')),
v AS MATERIALIZED (
  SELECT w.key, s.idx, w.prefix << s.idx AS prefix_tokens,
    max(iif(s.name = 'nll', s.value, NULL)) AS nll, max(iif(s.name = 'kl', s.value, NULL)) AS kl,
    max(iif(s.name = 'top1', s.value, NULL)) AS top1,
    max(iif(s.name = 'mass', s.value, NULL)) AS mass,
    max(iif(s.name = 'tokens_scored', s.value, NULL)) AS tokens_scored
  FROM w JOIN series s ON s.cell = w.key
  WHERE s.name IN ('nll', 'kl', 'top1', 'mass', 'tokens_scored') GROUP BY w.key, s.idx
  UNION ALL SELECT w.key, NULL, NULL, max(iif(m.name = 'nll', m.value, NULL)),
    max(iif(m.name = 'kl', m.value, NULL)), max(iif(m.name = 'top1', m.value, NULL)),
    max(iif(m.name = 'mass', m.value, NULL)), max(iif(m.name = 'tokens_scored', m.value, NULL))
  FROM w JOIN metric m ON m.cell = w.key GROUP BY w.key),
b AS (SELECT suite, prompt_id, seed, root_settings, machine, idx, avg(nll) AS nll,
    avg(mass) AS mass
  FROM w JOIN v USING (key) WHERE is_baseline GROUP BY 1, 2, 3, 4, 5, 6)
SELECT w.key, w.method, w.name, w.family, w.is_baseline, w.suite, w.prompt_id, w.repeat, w.seed,
  {w.group}, w.settings, w.root_settings, w.machine, w.bf16_bytes, w.nominal_bytes,
  16.0 * w.nominal_bytes / w.bf16_bytes AS bits, v.prefix_tokens, v.tokens_scored, v.nll,
  v.nll - b.nll AS d_nll, v.kl, v.top1, v.mass, v.mass - b.mass AS mass_shift
FROM w JOIN v USING (key) LEFT JOIN b ON (b.suite, b.prompt_id, b.seed, b.root_settings, b.machine)
  = (w.suite, w.prompt_id, w.seed, w.root_settings, w.machine) AND b.idx IS v.idx
