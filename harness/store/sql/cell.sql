(
  key TEXT PRIMARY KEY,  -- sha256 of spec, 32 digits
  rollout TEXT NOT NULL,  -- the same of the part that makes the frames
  baseline TEXT NOT NULL,  -- key of the BF16 cell it is compared with
  is_baseline INTEGER NOT NULL CHECK(is_baseline IN (0, 1)),
  spec TEXT NOT NULL CHECK(json_valid(spec)),
  method TEXT NOT NULL,  -- as shown: name, reading, options
  name TEXT NOT NULL,
  reading TEXT NOT NULL CHECK(reading <> ''),  -- intended, study, or whose program it is as in
  family TEXT NOT NULL,
  model TEXT NOT NULL,
  suite TEXT NOT NULL,
  prompt_id TEXT NOT NULL,
  prompt TEXT NOT NULL,
{declarations}  repeat INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK(outcome IN ('OK', 'EXCLUDED', 'UNSUPPORTED', 'SKIPPED', 'OOM_HOST',
    'OOM_DEVICE', 'TIMEOUT', 'SIGNAL', 'NAN', 'DIVERGED', 'INVALID', 'ERROR',
    'INTERRUPTED')),
  reason TEXT NOT NULL CHECK(outcome = 'OK' OR reason <> ''),
  log_tail TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  session TEXT NOT NULL REFERENCES session(id),
  started TEXT NOT NULL,
  finished TEXT NOT NULL,
  wall_ns INTEGER,
  bf16_bytes INTEGER,  -- at the end of the rollout: K and V in BF16,
  nominal_bytes INTEGER,  -- what the packed format needs by arithmetic,
  resident_bytes INTEGER,  -- what the cache really holds
  max_nominal_bytes INTEGER,  -- highest over the passes
  max_resident_bytes INTEGER,
  varying_millibits INTEGER,  -- blocks whose bytes depend on their values: 1000 bits an element,
  max_varying_millibits INTEGER,  -- of the block that took the most; NULL: there are none
  peak_bytes INTEGER,  -- highest total of all tags
  live_start_bytes INTEGER,
  live_end_bytes INTEGER,
  host_peak_bytes INTEGER,  -- VmHWM of the worker since the rollout began
  device_bytes INTEGER,  -- what the device says the process took
  device_missing TEXT,
  model_sha256 TEXT NOT NULL,
  input_sha256 TEXT NOT NULL,  -- of the prompt's text
  verdict TEXT NOT NULL CHECK(verdict IN ('VALID', 'NOISY', 'INVALID')),
  verdict_codes TEXT NOT NULL,  -- why not VALID, blank between codes
  time_codes TEXT,  -- why its time does not count; '': it does
  warning TEXT,  -- what to mind when the row is read; NULL: nothing
  run TEXT NOT NULL GENERATED ALWAYS AS ({run}) STORED,
  made_of TEXT GENERATED ALWAYS AS (iif(json_type(spec, '$.parts') = 'object',
    json_extract(spec, '$.plan', '$.options', '$.parts', '$.plugins'), NULL)) VIRTUAL,
  CHECK(run_kind IN ('bench', 'probe')),
  CHECK((run_kind = 'probe') = (query_stride IS NOT NULL)),
  CHECK((outcome = 'OK') = (verdict <> 'INVALID')),
  CHECK((verdict = 'VALID') = (verdict_codes = '')),
  CHECK((device_bytes IS NULL) <> (device_missing IS NULL)),
  CHECK(outcome <> 'OK' OR (wall_ns IS NOT NULL AND peak_bytes IS NOT NULL))
) STRICT, WITHOUT ROWID
