-- By how much the metric of one method is above that of another, or above a number, sample by sample;
-- draws and repeats are means.
WITH w AS (SELECT *, dense_rank() OVER (ORDER BY suite, prompt_id) AS place,
    dense_rank() OVER (ORDER BY suite, prompt_id, seed, root_settings, machine) AS sample
  FROM cells_wide w WHERE outcome = 'OK' AND run_kind = '{kind}' AND forcing = '{forcing}'
    AND NOT is_control AND method IN ('{of}', '{than}')),
m AS (SELECT place, sample, method, avg({value}) AS v FROM w GROUP BY place, sample, method)
SELECT a.place, a.sample, {sign} * (a.v - coalesce(b.v, 0)) - iif('{than}' = '', {sign} * {by}, {by})
FROM m a LEFT JOIN m b ON b.sample = a.sample AND b.method = '{than}'
WHERE a.method = '{of}' AND a.v IS NOT NULL AND ('{than}' = '' OR b.v IS NOT NULL)
