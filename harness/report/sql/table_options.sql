-- Options and components of each method, read from its cells. In the specs of cells, the stage `raw` has its
-- former name `exact`, so that cell keys do not change (FORMER in methods.def). The query replaces `exact` by
-- `raw`.
SELECT DISTINCT coalesce(shown, method) AS method, reading, model,
  replace(coalesce(json_extract(spec, '$.parts.codec_k'),
    json_extract(spec, '$.parts."codec_k.recent"') || ' / ' ||
    json_extract(spec, '$.parts."codec_k.old"')), 'exact(', 'raw(') AS codec_k,
  replace(coalesce(json_extract(spec, '$.parts.codec_v'),
    json_extract(spec, '$.parts."codec_v.recent"') || ' / ' ||
    json_extract(spec, '$.parts."codec_v.old"')), 'exact(', 'raw(') AS codec_v,
  json_extract(spec, '$.parts.tiers') AS tiers,
  json_extract(spec, '$.parts.retention') AS retention,
  json_extract(spec, '$.parts.cadence') AS cadence,
  json_extract(spec, '$.parts.recode') AS recode,
  json_extract(spec, '$.parts.correction') AS correction,
  json_extract(spec, '$.parts.reuse') AS reuse,
  nullif(json_extract(spec, '$.options'), '{}') AS options
FROM cell LEFT JOIN made USING(method, made_of) ORDER BY is_baseline DESC, method
