-- One row per method, text and prefix length, ordered by settings, chunk and prefix length. A method's mean over
-- all prefixes follows the prefix lengths. Per prefix length, the reference is first, and each method precedes its
-- variants with a correction. `carrier`: the method's label without its correction.
WITH p AS (SELECT p.*, json_extract(c.spec, '$.parts.correction') AS correction,
    replace(p.settings, ', chunk ' || p.chunk, '') || ', ' || p.machine AS shown
  FROM prefill p JOIN cell c USING (key)),
q AS (SELECT *, iif(instr(method, '+') AND correction <> 'none',
    substr(method, 1, instr(method, '+') - 1), method) AS carrier FROM p)
SELECT shown, chunk, prefix_tokens, method, carrier, correction, is_baseline,
  dense_rank() OVER (ORDER BY suite, prompt_id) AS place, seed, nll, d_nll, kl, top1, mass,
  mass_shift, abs(mass_shift), bf16_bytes, nominal_bytes, tokens_scored
FROM q ORDER BY shown, chunk, prefix_tokens IS NULL, prefix_tokens, is_baseline DESC, carrier,
  method <> carrier, method, place, seed
