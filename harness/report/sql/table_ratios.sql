-- Ratio of a method's time to BF16's in consecutive rollouts (setting abba), per method and {by}: geometric mean and
-- 95 % interval over pairs. Cells disturbed by load or throttling are excluded. `codes`: reasons why a row has no
-- ratio, such as an interval wider than a tenth of the ratio.
WITH w AS (SELECT *, {by} AS place FROM cells_wide WHERE run_kind = 'bench' AND jitter = 0
    AND outcome = 'OK' AND abba > 0 AND NOT is_baseline),
p AS (SELECT w.method, w.place, count(*) AS n, geomean(s.value) AS ratio, geomean_lo(s.value) AS lo,
    geomean_hi(s.value) AS hi
  FROM w JOIN series s ON s.cell = w.key AND s.name = 'runtime_ratio'
  WHERE w.ratio_codes = '' GROUP BY w.method, w.place),
c AS (SELECT method, place, max(ratio_codes) AS codes FROM w GROUP BY method, place)
SELECT c.method, c.place, p.n, iif(p.hi / p.lo <= 1.1, p.ratio, NULL) AS ratio, p.lo, p.hi,
  CASE WHEN p.n IS NULL THEN c.codes WHEN p.hi / p.lo <= 1.1 THEN '' ELSE 'WIDE' END AS codes
FROM c LEFT JOIN p USING (method, place) ORDER BY c.method, c.place
