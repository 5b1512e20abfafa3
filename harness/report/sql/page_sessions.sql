SELECT id, started, host, os, cpu_model, n_cpus, memory_bytes, governor, jobs,
  git_hash, git_dirty, compiler, cflags, libraries, driver, turbo, argv, config_path,
  config_text, (SELECT group_concat(said, ', ') FROM (SELECT CASE name WHEN 'cpus' THEN 'CPUs '
    WHEN 'cpu_nodes' THEN 'of nodes ' ELSE 'memory of nodes ' END || value AS said FROM about
    WHERE about.session = session.id AND name IN ('cpus', 'cpu_nodes', 'memory_nodes')
    ORDER BY name <> 'cpus', name)) AS may_use FROM session WHERE id IN (SELECT session FROM cell)
ORDER BY started, id
