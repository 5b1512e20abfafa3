-- Name of each sweep, from the `name:` line of its config.
SELECT group_concat(name, ', ') FROM (SELECT DISTINCT
    trim(substr(line, 1, instr(line || char(10), char(10)) - 1), ' ' || char(34, 39)) AS name
  FROM (SELECT started, substr(char(10) || config_text,
      instr(char(10) || config_text, char(10) || 'name:') + 6) AS line,
    instr(char(10) || config_text, char(10) || 'name:') AS at FROM session
    WHERE id IN (SELECT session FROM cell)) WHERE at > 0 ORDER BY started)
