SELECT method, n_ok, n_attempted, n_failed, n_unsupported, n_open, model, suite
FROM coverage
