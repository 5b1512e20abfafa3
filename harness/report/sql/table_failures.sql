SELECT outcome, method, prompt_id AS prompt, seed, reason, attempt, model, frames
FROM failures
