-- For each session, newest first, the two texts that may name its output folder: argv, the command line, which may
-- have --out; and dir, the value of `out:` in the config, '' if the config has none.
SELECT argv, iif(at = 0, '',
  trim(substr(line, 1, instr(line || char(10), char(10)) - 1), ' ' || char(34, 39))) AS dir
FROM (SELECT argv, started, at, substr(char(10) || config_text, at + 5) AS line
  FROM (SELECT *, instr(char(10) || config_text, char(10) || 'out:') AS at FROM session))
ORDER BY started DESC
