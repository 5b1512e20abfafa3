SELECT suite, prompt_id AS id, min(prompt) AS text FROM cell
GROUP BY suite, prompt_id ORDER BY suite, prompt_id
