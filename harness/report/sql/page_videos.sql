-- Videos in the order in which a single-file page includes them: per prompt the reference, then the most
-- compressed method of each family, then all other methods.
WITH v AS (SELECT c.key, a.path, a.sha256, a.bytes, c.prompt_id, c.suite, c.is_baseline, c.family,
  c.method,
  row_number() OVER (PARTITION BY c.suite, c.prompt_id, c.is_baseline, c.family
    ORDER BY c.reading, c.nominal_bytes, c.method, c.key) AS rank
  FROM cell c JOIN artifact a ON a.cell = c.key WHERE a.kind = 'video'
    AND c.jitter = 0)
SELECT key, path, sha256, bytes FROM v
ORDER BY suite, prompt_id, is_baseline DESC, rank, family, method, key
