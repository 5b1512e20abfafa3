(
  key TEXT PRIMARY KEY,  -- first 32 digits of the sha256 of spec
  rollout TEXT NOT NULL,  -- the same for the part of the spec that determines the frames
  baseline TEXT NOT NULL,  -- key of the BF16 cell it is compared with
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
  bf16_bytes INTEGER,  -- at the end of the rollout: size of K and V in BF16,
  nominal_bytes INTEGER,  -- size of the packed format from arithmetic,
  resident_bytes INTEGER,  -- allocated by the cache
  max_nominal_bytes INTEGER,  -- maximum over passes
  max_resident_bytes INTEGER,
  varying_millibits INTEGER,  -- blocks of data-dependent size: thousandths of bits per element,
  max_varying_millibits INTEGER,  -- of the largest block; NULL: none
  peak_bytes INTEGER,  -- peak of the total over all tags
  live_start_bytes INTEGER,
  live_end_bytes INTEGER,
  host_peak_bytes INTEGER,  -- VmHWM of the worker since the start of the rollout
  device_bytes INTEGER,  -- device memory of the process, from the driver
  device_missing TEXT,
  model_sha256 TEXT NOT NULL,
  input_sha256 TEXT NOT NULL,  -- of the prompt's text
  verdict TEXT NOT NULL CHECK(verdict IN ('VALID', 'NOISY', 'INVALID')),
  verdict_codes TEXT NOT NULL,  -- why not VALID, space-separated
  time_codes TEXT,  -- why its time does not count; '': it counts
  warning TEXT,  -- caveat for its numbers; NULL: none
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
