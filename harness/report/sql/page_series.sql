SELECT cell, name, json_group_array(value) AS value_json FROM
  (SELECT w.key AS cell, s.name,
     round(s.value, CASE s.name WHEN 'psnr' THEN 2 ELSE 4 END) AS value
   FROM cells_wide w JOIN series s ON (s.name = 'psnr' AND s.cell = {w.series:psnr})
     OR (s.name = 'ssim' AND s.cell = {w.series:ssim})
   ORDER BY w.key, s.name, s.idx)
GROUP BY cell, name ORDER BY cell, name
