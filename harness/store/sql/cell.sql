(
  key TEXT PRIMARY KEY,  -- first 32 digits of the sha256 of spec
  rollout TEXT NOT NULL,  -- first 32 digits of the sha256 of the part of the spec that determines the frames
  baseline TEXT NOT NULL,  -- key of the BF16 cell that is this cell's reference
  is_baseline INTEGER NOT NULL CHECK(is_baseline IN (0, 1)),
  spec TEXT NOT NULL CHECK(json_valid(spec)),
  method TEXT NOT NULL,  -- display label: name, reading, options
  name TEXT NOT NULL,
  reading TEXT NOT NULL CHECK(reading <> ''),  -- intended, study, or a project (NAME@project)
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
  bf16_bytes INTEGER,  -- size in BF16 of the keys and values at the end of the rollout
  nominal_bytes INTEGER,  -- computed size of their packed format at the end of the rollout
  resident_bytes INTEGER,  -- bytes that the cache has allocated at the end of the rollout
  max_nominal_bytes INTEGER,  -- maximum of nominal bytes over all passes
  max_resident_bytes INTEGER,
  varying_millibits INTEGER,  -- mean size of blocks of data-dependent size, in 1/1000 bit per element; NULL: none
  max_varying_millibits INTEGER,  -- size of the largest such block, in 1/1000 bit per element; NULL: none
  peak_bytes INTEGER,  -- maximum of the bytes allocated over all tags
  live_start_bytes INTEGER,
  live_end_bytes INTEGER,
  host_peak_bytes INTEGER,  -- VmHWM of the worker since the start of the rollout
  device_bytes INTEGER,  -- peak bytes that the device's memory pool has reserved
  device_missing TEXT,
  model_sha256 TEXT NOT NULL,
  input_sha256 TEXT NOT NULL,  -- sha256 of the prompt's text
  verdict TEXT NOT NULL CHECK(verdict IN ('VALID', 'NOISY', 'INVALID')),
  verdict_codes TEXT NOT NULL,  -- reasons why the verdict is not VALID, space-separated
  time_codes TEXT,  -- reasons why the time is not a controlled time; '': it is
  warning TEXT,  -- caveat for the cell's numbers; NULL: none
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
