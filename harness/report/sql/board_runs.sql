-- Runs of one database for the leaderboard of `kvreel report --board`. {metric}: name of the ranking metric.
SELECT c.model || ' ' || substr(k.model_sha256, 1, 12) || '; ' || c.settings || '; ' || c.machine AS place,
  c.model, k.model_sha256, c.settings, c.machine, c.method, c.is_baseline,
  c.suite || '/' || c.prompt_id || ' ' || k.input_sha256 AS prompt, c.key,
  c.outcome = 'OK' AS ok, iif(c.outcome = 'OK', {c.score:{metric}}, NULL) AS value,
  iif(c.outcome = 'OK', c.bf16_bytes, NULL) AS bf16, iif(c.outcome = 'OK', c.nominal_bytes, NULL) AS nominal,
  c.runtime_s, s.git_hash || iif(s.git_dirty, '-dirty', '') AS git, s.config_path, s.config_text, s.argv
FROM cells_wide c JOIN cell k ON k.key = c.key JOIN session s ON s.id = c.session
WHERE c.run_kind = 'bench' AND NOT c.is_control AND c.jitter = 0
ORDER BY place, c.method, prompt, c.key
