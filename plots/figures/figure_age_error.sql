-- One attention statistic by the age of the tokens in chunks. {name}: k_rel_error, v_rel_error or topk_recall.
SELECT method, family, is_baseline, settings, age AS x, mean AS y
FROM probe_by_age h WHERE name = '{name}' AND is_baseline = 0
ORDER BY settings, is_baseline DESC, method, x
