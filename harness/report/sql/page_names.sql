-- Name of each sweep whose cells the database has, in the order of the sweeps' first sessions. A session without plan
-- has the name in the `name:` line of its config.
SELECT group_concat(name, ', ') FROM (SELECT name, min(started) AS first FROM (SELECT started,
      coalesce((SELECT w.name FROM about a JOIN sweep w ON w.id = a.value WHERE a.session = s.id AND a.name = 'sweep'),
        iif(at > 0, trim(substr(line, 1, instr(line || char(10), char(10)) - 1), ' ' || char(34, 39)), NULL)) AS name
    FROM (SELECT id, started, substr(char(10) || config_text,
        instr(char(10) || config_text, char(10) || 'name:') + 6) AS line,
      instr(char(10) || config_text, char(10) || 'name:') AS at FROM session
      WHERE id IN (SELECT session FROM cell)) s)
  WHERE name <> '' GROUP BY name ORDER BY first, name)
