-- Number of planned cells by outcome, per suite, method and run kind, as in `kvreel status`.
SELECT suite, method, run_kind, n_planned, n_ok, n_failed, n_unsupported, n_excluded, n_open FROM coverage
