CREATE TABLE session(
  id TEXT PRIMARY KEY,
  started TEXT NOT NULL,
  argv TEXT NOT NULL,  -- command line as a JSON array
  config_path TEXT NOT NULL,
  config_text TEXT NOT NULL,
  host TEXT NOT NULL,
  os TEXT NOT NULL,
  cpu_model TEXT NOT NULL,  -- name of the CPU and kernel variant: "NAME, kernels avx2"
  n_cpus INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  governor TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  git_hash TEXT NOT NULL,
  git_dirty INTEGER NOT NULL CHECK(git_dirty IN (0, 1)),
  compiler TEXT NOT NULL,
  cflags TEXT NOT NULL,
  libraries TEXT NOT NULL,
  driver TEXT NOT NULL,  -- device and driver version; "none: cpu" without a device
  turbo TEXT NOT NULL,
  order_seed INTEGER NOT NULL,  -- seed of the random order in which cells start
  code TEXT NOT NULL  -- hash of the source files that affect stored numbers
) STRICT, WITHOUT ROWID;

CREATE TABLE metric(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value REAL,
  unit TEXT NOT NULL,
  n INTEGER NOT NULL,  -- number of frames that the value is computed from
  extra REAL,  -- second number of some metrics; for psnr, the number of identical frames
  missing TEXT,  -- reason why value is NULL
  PRIMARY KEY(cell, name),
  CHECK((value IS NULL) <> (missing IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE series(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  idx INTEGER NOT NULL,  -- index in the series: frame, chunk, prefix or pair, from 0
  value REAL,
  PRIMARY KEY(cell, name, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE mem(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  at_peak INTEGER NOT NULL,  -- bytes of this tag when the total over all tags was largest
  tag_peak INTEGER NOT NULL,  -- largest bytes of this tag
  live_end INTEGER NOT NULL,
  PRIMARY KEY(cell, tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE pass(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  idx INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  pass INTEGER NOT NULL,  -- index of the forward pass within the chunk
  t_ns INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  bf16_bytes INTEGER NOT NULL,
  nominal_bytes INTEGER NOT NULL,
  resident_bytes INTEGER NOT NULL,
  resident_kv_bytes INTEGER NOT NULL,
  live_bytes INTEGER NOT NULL,  -- allocated bytes over all tags; the next six columns have them by tag
  kv_bytes INTEGER NOT NULL,
  meta_bytes INTEGER NOT NULL,
  scratch_bytes INTEGER NOT NULL,
  weights_bytes INTEGER NOT NULL,
  act_bytes INTEGER NOT NULL,
  io_bytes INTEGER NOT NULL,
  encode_ns INTEGER,  -- time in this pass; this and the next five columns are NULL unless run_kind is 'probe'
  decode_ns INTEGER,
  attend_ns INTEGER,
  linear_ns INTEGER,
  cross_ns INTEGER,
  other_ns INTEGER,
  PRIMARY KEY(cell, idx)
) STRICT, WITHOUT ROWID;

-- Attention statistics of cells with run_kind 'probe'. NULL in layer, head, step, chunk or age: over all of them.
CREATE TABLE probe(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  layer INTEGER,
  head INTEGER,
  step INTEGER,  -- index of the forward pass within the chunk
  chunk INTEGER,
  age INTEGER,  -- age of the attended tokens in chunks; 1: the previous chunk
  value REAL,
  n INTEGER NOT NULL  -- number of queries or tokens that the value is averaged over
) STRICT;
CREATE UNIQUE INDEX probe_place ON probe(cell, name, coalesce(layer, -1),
  coalesce(head, -1), coalesce(step, -1), coalesce(chunk, -1), coalesce(age, -1));

CREATE TABLE sample(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  round INTEGER NOT NULL,
  ns INTEGER NOT NULL,
  PRIMARY KEY(cell, kind, round)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  path TEXT NOT NULL CHECK(substr(path, 1, 1) <> '/'),  -- relative to the out folder
  bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY(cell, kind)
) STRICT, WITHOUT ROWID;

-- All attempts at all cells, including attempts whose results a later attempt has replaced.
CREATE TABLE attempt(
  cell TEXT NOT NULL,
  session TEXT NOT NULL REFERENCES session(id),
  n INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  log_tail TEXT NOT NULL,
  started TEXT NOT NULL,
  finished TEXT NOT NULL,
  wall_ns INTEGER,
  frames_sha256 TEXT,
  PRIMARY KEY(cell, session, n)
) STRICT, WITHOUT ROWID;

-- Repeated measurements of one baseline's rollout at the start, middle and end of a session with `timing: true`.
CREATE TABLE drift(
  session TEXT NOT NULL REFERENCES session(id),
  idx INTEGER NOT NULL,
  cell TEXT NOT NULL,
  started TEXT NOT NULL,
  ns INTEGER NOT NULL,
  PRIMARY KEY(session, idx)
) STRICT, WITHOUT ROWID;
