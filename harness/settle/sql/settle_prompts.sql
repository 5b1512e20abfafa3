-- Number of measured prompts per method and suite.
SELECT method, suite, run_kind, forcing, model, count(DISTINCT prompt_id) FROM cells_wide
WHERE outcome = 'OK' AND NOT is_control GROUP BY 1, 2, 3, 4, 5
