SELECT id, started, host, os, cpu_model, n_cpus, memory_bytes, governor, jobs,
  git_hash, git_dirty, compiler, cflags, libraries, driver, turbo, argv, config_path,
  config_text FROM session WHERE id IN (SELECT session FROM cell)
ORDER BY started, id
