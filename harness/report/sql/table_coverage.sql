SELECT method, n_planned, n_ok, n_failed, n_unsupported, n_excluded, n_open, model, suite
FROM coverage
