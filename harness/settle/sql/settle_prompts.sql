-- How many prompts of each suite a method has been measured on.
SELECT count(DISTINCT prompt_id) FROM cells_wide WHERE outcome = 'OK' AND NOT is_control
  AND method = '{method}' AND suite = '{suite}' AND run_kind = '{kind}' AND forcing = '{forcing}'
  AND model = '{model}'
