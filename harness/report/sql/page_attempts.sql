-- All attempts at cells with more than one attempt.
SELECT cell, n, outcome, reason, started, round(wall_ns / 1e9, 4) AS wall_s FROM attempt
WHERE cell IN (SELECT cell FROM attempt GROUP BY cell HAVING count(*) > 1)
ORDER BY cell, started, n
