-- Effect of a compressed prefix on a language model, by prefix length and text. {value}: a column of view prefill.
SELECT method, family, is_baseline, settings, x, avg(v) AS value FROM (
  SELECT method, family, is_baseline, settings, suite, prompt_id, prefix_tokens AS x,
    avg({value}) AS v
  FROM prefill WHERE prefix_tokens IS NOT NULL AND NOT is_baseline AND {value} IS NOT NULL
  GROUP BY settings, method, suite, prompt_id, seed, prefix_tokens)
GROUP BY settings, method, suite, prompt_id, x
ORDER BY settings, is_baseline DESC, method, x
