/* schema.c - the database. Long tables hold what was measured; views give the wide ones.
 *
 * Every number that can be missing is NULL with a reason beside it. Cells are keyed by a hash
 * of their spec, so that databases of shards can be joined. */
#include "harness/store/store.h"

const char kvr_store_cell[] =
    "(\n"
    "  key TEXT PRIMARY KEY,\n"   /* sha256 of spec, 32 digits */
    "  rollout TEXT NOT NULL,\n"  /* the same of the part that makes the frames */
    "  baseline TEXT NOT NULL,\n" /* key of the BF16 cell it is compared with */
    "  is_baseline INTEGER NOT NULL CHECK(is_baseline IN (0, 1)),\n"
    "  spec TEXT NOT NULL CHECK(json_valid(spec)),\n"
    "  method TEXT NOT NULL,\n" /* as shown: name, reading, options */
    "  name TEXT NOT NULL,\n"
    "  reading TEXT NOT NULL CHECK(reading IN ('intended', 'study')),\n"
    "  family TEXT NOT NULL,\n"
    "  model TEXT NOT NULL,\n"
    "  suite TEXT NOT NULL,\n"
    "  prompt_id TEXT NOT NULL,\n"
    "  prompt TEXT NOT NULL,\n"
    "{declarations}"
    "  repeat INTEGER NOT NULL,\n"
    "  outcome TEXT NOT NULL CHECK(outcome IN ('OK', 'SKIPPED', 'UNSUPPORTED', 'OOM_HOST',\n"
    "    'OOM_DEVICE', 'TIMEOUT', 'SIGNAL', 'NAN', 'DIVERGED', 'INVALID', 'ERROR',\n"
    "    'INTERRUPTED')),\n"
    "  reason TEXT NOT NULL CHECK(outcome = 'OK' OR reason <> ''),\n"
    "  log_tail TEXT NOT NULL,\n"
    "  attempt INTEGER NOT NULL,\n"
    "  session TEXT NOT NULL REFERENCES session(id),\n"
    "  started TEXT NOT NULL,\n"
    "  finished TEXT NOT NULL,\n"
    "  wall_ns INTEGER,\n"
    "  bf16_bytes INTEGER,\n"        /* at the end of the rollout: K and V in BF16, */
    "  nominal_bytes INTEGER,\n"     /* what the packed format needs by arithmetic, */
    "  resident_bytes INTEGER,\n"    /* what the cache really holds */
    "  max_nominal_bytes INTEGER,\n" /* highest over the passes */
    "  max_resident_bytes INTEGER,\n"
    "  peak_bytes INTEGER,\n" /* highest total of all tags */
    "  live_start_bytes INTEGER,\n"
    "  live_end_bytes INTEGER,\n"
    "  host_peak_bytes INTEGER,\n" /* VmHWM of the worker since the rollout began */
    "  device_bytes INTEGER,\n"    /* what the device says the process took */
    "  device_missing TEXT,\n"
    "  model_sha256 TEXT NOT NULL,\n"
    "  input_sha256 TEXT NOT NULL,\n" /* of the prompt's text */
    "  verdict TEXT NOT NULL CHECK(verdict IN ('VALID', 'NOISY', 'INVALID')),\n"
    "  verdict_codes TEXT NOT NULL,\n" /* why not VALID, blank between codes */
    "  warning TEXT,\n"                /* what to mind when the row is read; NULL: nothing */
    "  run TEXT NOT NULL GENERATED ALWAYS AS ({run}) STORED,\n"
    "  made_of TEXT GENERATED ALWAYS AS (iif(json_type(spec, '$.parts') = 'object',\n"
    "    json_extract(spec, '$.plan', '$.options', '$.parts', '$.plugins'), NULL)) VIRTUAL,\n"
    "  CHECK(run_kind IN ('bench', 'probe')),\n"
    "  CHECK((run_kind = 'probe') = (query_stride IS NOT NULL)),\n"
    "  CHECK((outcome = 'OK') = (verdict <> 'INVALID')),\n"
    "  CHECK((verdict = 'VALID') = (verdict_codes = '')),\n"
    "  CHECK((device_bytes IS NULL) <> (device_missing IS NULL)),\n"
    "  CHECK(outcome <> 'OK' OR (wall_ns IS NOT NULL AND peak_bytes IS NOT NULL))\n"
    ") STRICT, WITHOUT ROWID";

const char *const kvr_store_cell_index[][2] = {
    { "cell_method", "cell(model, method)" },
    { "cell_baseline", "cell(baseline)" },
    { "cell_rollout", "cell(rollout)" },
    { "cell_run", "cell(run)" },
    { NULL, NULL },
};

const char kvr_store_schema[] =
    "CREATE TABLE session(\n"
    "  id TEXT PRIMARY KEY,\n"
    "  started TEXT NOT NULL,\n"
    "  argv TEXT NOT NULL,\n" /* JSON array */
    "  config_path TEXT NOT NULL,\n"
    "  config_text TEXT NOT NULL,\n"
    "  host TEXT NOT NULL,\n"
    "  os TEXT NOT NULL,\n"
    "  cpu_model TEXT NOT NULL,\n" /* with the variant of its kernels: "NAME, kernels avx2" */
    "  n_cpus INTEGER NOT NULL,\n"
    "  memory_bytes INTEGER NOT NULL,\n"
    "  governor TEXT NOT NULL,\n"
    "  jobs INTEGER NOT NULL,\n"
    "  git_hash TEXT NOT NULL,\n"
    "  git_dirty INTEGER NOT NULL CHECK(git_dirty IN (0, 1)),\n"
    "  compiler TEXT NOT NULL,\n"
    "  cflags TEXT NOT NULL,\n"
    "  libraries TEXT NOT NULL,\n"
    "  driver TEXT NOT NULL,\n" /* of the device; "none: cpu" */
    "  turbo TEXT NOT NULL,\n"
    "  order_seed INTEGER NOT NULL,\n" /* of the order in which cells were started */
    "  code TEXT NOT NULL\n"           /* hash of the sources that numbers depend on */
    ") STRICT, WITHOUT ROWID;\n"

    "CREATE TABLE metric(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  name TEXT NOT NULL,\n"
    "  value REAL,\n"
    "  unit TEXT NOT NULL,\n"
    "  n INTEGER NOT NULL,\n" /* pooled over so many frames */
    "  extra REAL,\n"         /* the metric's second number: psnr, identical frames */
    "  missing TEXT,\n"       /* why there is no value */
    "  PRIMARY KEY(cell, name),\n"
    "  CHECK((value IS NULL) <> (missing IS NULL))\n"
    ") STRICT, WITHOUT ROWID;\n"

    "CREATE TABLE series(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  name TEXT NOT NULL,\n"
    "  idx INTEGER NOT NULL,\n" /* frame */
    "  value REAL,\n"
    "  PRIMARY KEY(cell, name, idx)\n"
    ") STRICT, WITHOUT ROWID;\n"

    "CREATE TABLE mem(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  tag TEXT NOT NULL,\n"
    "  at_peak INTEGER NOT NULL,\n"  /* bytes held when the total was highest */
    "  tag_peak INTEGER NOT NULL,\n" /* the tag's own highest */
    "  live_end INTEGER NOT NULL,\n"
    "  PRIMARY KEY(cell, tag)\n"
    ") STRICT, WITHOUT ROWID;\n"

    "CREATE TABLE pass(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  idx INTEGER NOT NULL,\n"
    "  chunk INTEGER NOT NULL,\n"
    "  pass INTEGER NOT NULL,\n" /* which forward of the chunk */
    "  t_ns INTEGER NOT NULL,\n"
    "  tokens INTEGER NOT NULL,\n"
    "  bf16_bytes INTEGER NOT NULL,\n"
    "  nominal_bytes INTEGER NOT NULL,\n"
    "  resident_bytes INTEGER NOT NULL,\n"
    "  resident_kv_bytes INTEGER NOT NULL,\n"
    "  live_bytes INTEGER NOT NULL,\n" /* of all tags; of each: */
    "  kv_bytes INTEGER NOT NULL,\n"
    "  meta_bytes INTEGER NOT NULL,\n"
    "  scratch_bytes INTEGER NOT NULL,\n"
    "  weights_bytes INTEGER NOT NULL,\n"
    "  act_bytes INTEGER NOT NULL,\n"
    "  io_bytes INTEGER NOT NULL,\n"
    "  encode_ns INTEGER,\n" /* of this pass alone; probes only, never timed rows */
    "  decode_ns INTEGER,\n"
    "  attend_ns INTEGER,\n"
    "  linear_ns INTEGER,\n"
    "  cross_ns INTEGER,\n"
    "  other_ns INTEGER,\n"
    "  PRIMARY KEY(cell, idx)\n"
    ") STRICT, WITHOUT ROWID;\n"

    /* What attention did, of cells of run_kind 'probe'. NULL in a place: over all of them. */
    "CREATE TABLE probe(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  name TEXT NOT NULL,\n"
    "  layer INTEGER,\n"
    "  head INTEGER,\n"
    "  step INTEGER,\n" /* which forward of the chunk */
    "  chunk INTEGER,\n"
    "  age INTEGER,\n" /* chunks back, from 1 */
    "  value REAL,\n"
    "  n INTEGER NOT NULL\n" /* queries or tokens behind it */
    ") STRICT;\n"
    "CREATE UNIQUE INDEX probe_place ON probe(cell, name, coalesce(layer, -1),\n"
    "  coalesce(head, -1), coalesce(step, -1), coalesce(chunk, -1), coalesce(age, -1));\n"

    "CREATE TABLE sample(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  kind TEXT NOT NULL,\n"
    "  round INTEGER NOT NULL,\n"
    "  ns INTEGER NOT NULL,\n"
    "  PRIMARY KEY(cell, kind, round)\n"
    ") STRICT, WITHOUT ROWID;\n"

    "CREATE TABLE artifact(\n"
    "  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,\n"
    "  kind TEXT NOT NULL,\n"
    "  path TEXT NOT NULL CHECK(substr(path, 1, 1) <> '/'),\n" /* relative to the out folder */
    "  bytes INTEGER NOT NULL,\n"
    "  sha256 TEXT NOT NULL,\n"
    "  PRIMARY KEY(cell, kind)\n"
    ") STRICT, WITHOUT ROWID;\n"

    /* Every attempt at every cell, also those that a later one replaced. */
    "CREATE TABLE attempt(\n"
    "  cell TEXT NOT NULL,\n"
    "  session TEXT NOT NULL REFERENCES session(id),\n"
    "  n INTEGER NOT NULL,\n"
    "  outcome TEXT NOT NULL,\n"
    "  reason TEXT NOT NULL,\n"
    "  log_tail TEXT NOT NULL,\n"
    "  started TEXT NOT NULL,\n"
    "  finished TEXT NOT NULL,\n"
    "  wall_ns INTEGER,\n"
    "  frames_sha256 TEXT,\n"
    "  PRIMARY KEY(cell, session, n)\n"
    ") STRICT, WITHOUT ROWID;\n"

    /* The same baseline at the start, in the middle and at the end of a timed session. */
    "CREATE TABLE drift(\n"
    "  session TEXT NOT NULL REFERENCES session(id),\n"
    "  idx INTEGER NOT NULL,\n"
    "  cell TEXT NOT NULL,\n"
    "  started TEXT NOT NULL,\n"
    "  ns INTEGER NOT NULL,\n"
    "  PRIMARY KEY(session, idx)\n"
    ") STRICT, WITHOUT ROWID;\n";
