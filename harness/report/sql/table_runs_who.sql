-- Origin of a database: commits, compilers, machines.
SELECT group_concat(who, '; ') FROM (SELECT DISTINCT 'commit ' || substr(git_hash, 1, 10) ||
    iif(git_dirty, ' with local changes', '') || ', ' || compiler || ', ' || cpu_model AS who
  FROM session WHERE id IN (SELECT session FROM cell) ORDER BY 1)
