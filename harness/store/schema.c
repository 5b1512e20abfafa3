/* schema.c - the database. Long tables hold what was measured; views give the wide ones.
 *
 * Every number that can be missing is NULL with a reason beside it. Cells are keyed by a hash
 * of their spec, so that databases of shards can be joined. */
#include "harness/store/store.h"

const char kvr_store_schema[] =
    "CREATE TABLE session(\n"
    "  id TEXT PRIMARY KEY,\n"
    "  started TEXT NOT NULL,\n"
    "  argv TEXT NOT NULL,\n" /* JSON array */
    "  config_path TEXT NOT NULL,\n"
    "  config_text TEXT NOT NULL,\n"
    "  host TEXT NOT NULL,\n"
    "  os TEXT NOT NULL,\n"
    "  cpu_model TEXT NOT NULL,\n"
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

    "CREATE TABLE cell(\n"
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
    "  seed INTEGER NOT NULL,\n"
    "  frames INTEGER NOT NULL,\n"
    "  window INTEGER NOT NULL,\n"
    "  sink INTEGER NOT NULL,\n"
    "  evict INTEGER NOT NULL CHECK(evict IN (0, 1)),\n"
    "  path TEXT NOT NULL,\n"
    "  backend TEXT NOT NULL,\n"
    "  threads INTEGER NOT NULL,\n"
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
    "  run_kind TEXT NOT NULL CHECK(run_kind IN ('bench', 'probe')),\n"
    "  query_stride INTEGER,\n" /* of a probe: every so manieth query was looked at */
    "  CHECK((run_kind = 'probe') = (query_stride IS NOT NULL)),\n"
    "  CHECK((outcome = 'OK') = (verdict <> 'INVALID')),\n"
    "  CHECK((verdict = 'VALID') = (verdict_codes = '')),\n"
    "  CHECK((device_bytes IS NULL) <> (device_missing IS NULL)),\n"
    "  CHECK(outcome <> 'OK' OR (wall_ns IS NOT NULL AND peak_bytes IS NOT NULL))\n"
    ") STRICT, WITHOUT ROWID;\n"
    "CREATE INDEX cell_method ON cell(model, method);\n"
    "CREATE INDEX cell_baseline ON cell(baseline);\n"
    "CREATE INDEX cell_rollout ON cell(rollout);\n"

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
    ") STRICT, WITHOUT ROWID;\n"

    /* One row per cell with the metrics as columns. `machine`: what times may be compared in. */
    "CREATE VIEW cells_wide AS\n"
    "SELECT c.key, c.method, c.name, c.reading, c.family, c.is_baseline, c.model, c.suite,\n"
    "  c.prompt_id, c.prompt, c.seed, c.frames, c.window, c.sink, c.evict, c.path, c.backend,\n"
    "  c.threads, c.repeat, c.outcome, c.reason,\n"
    "  (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'psnr') AS psnr_db,\n"
    "  (SELECT value FROM metric m WHERE m.cell = c.key AND m.name = 'ssim') AS ssim,\n"
    "  (SELECT extra FROM metric m WHERE m.cell = c.key AND m.name = 'psnr')\n"
    "    AS identical_frames,\n"
    "  c.bf16_bytes, c.nominal_bytes, c.resident_bytes,\n"
    "  c.max_nominal_bytes, c.max_resident_bytes,\n"
    "  CAST(c.bf16_bytes AS REAL) / nullif(c.nominal_bytes, 0) AS compression,\n"
    "  CAST(c.bf16_bytes AS REAL) / nullif(c.resident_bytes, 0) AS resident_compression,\n"
    "  c.peak_bytes, c.host_peak_bytes, c.wall_ns / 1e9 AS runtime_s, c.attempt, c.session,\n"
    "  c.verdict, c.verdict_codes, c.device_bytes, c.run_kind,\n"
    "  s.cpu_model || ', ' || s.n_cpus || ' CPUs' || iif(s.driver = 'none: cpu', '', ', ' ||\n"
    "    s.driver) AS machine, s.code, c.rollout\n"
    "FROM cell c JOIN session s ON s.id = c.session;\n"

    /* One row per method, model, settings and machine, of timed cells. Means are over the cells
     * that have the number; n_ok beside n_attempted says when that is not all of them. A time
     * counts when its cell is VALID. */
    "CREATE VIEW summary AS\n"
    "WITH ok AS (SELECT *,\n"
    "    row_number() OVER (PARTITION BY method, model, frames, window, sink, evict, path,\n"
    "      threads, machine ORDER BY runtime_s) AS rank,\n"
    "    count(*) OVER (PARTITION BY method, model, frames, window, sink, evict, path, threads,\n"
    "      machine) AS n\n"
    "  FROM cells_wide WHERE verdict = 'VALID' AND run_kind = 'bench'),\n"
    "med AS (SELECT method, model, frames, window, sink, evict, path, threads, machine,\n"
    "    avg(runtime_s) AS runtime_s FROM ok WHERE rank IN ((n + 1) / 2, (n + 2) / 2)\n"
    "  GROUP BY method, model, frames, window, sink, evict, path, threads, machine)\n"
    "SELECT w.method, w.name, w.reading, w.family, max(w.is_baseline) AS is_baseline, w.model,\n"
    "  w.frames, w.window, w.sink, w.evict, w.path, w.threads,\n"
    "  count(*) FILTER (WHERE w.outcome = 'OK') AS n_ok, count(*) AS n_attempted,\n"
    "  avg(w.psnr_db) FILTER (WHERE w.outcome = 'OK') AS psnr_db,\n"
    "  avg(w.ssim) FILTER (WHERE w.outcome = 'OK') AS ssim,\n"
    "  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /\n"
    "    nullif(sum(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK'), 0) AS compression,\n"
    "  sum(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') * 1.0 /\n"
    "    nullif(sum(w.resident_bytes) FILTER (WHERE w.outcome = 'OK'), 0)\n"
    "    AS resident_compression,\n"
    "  avg(w.bf16_bytes) FILTER (WHERE w.outcome = 'OK') AS bf16_bytes,\n"
    "  avg(w.nominal_bytes) FILTER (WHERE w.outcome = 'OK') AS nominal_bytes,\n"
    "  avg(w.resident_bytes) FILTER (WHERE w.outcome = 'OK') AS resident_bytes,\n"
    "  max(w.peak_bytes) FILTER (WHERE w.outcome = 'OK') AS peak_bytes,\n"
    "  med.runtime_s, w.machine, count(*) FILTER (WHERE w.verdict = 'VALID') AS n_valid,\n"
    "  count(*) FILTER (WHERE w.verdict = 'NOISY') AS n_noisy,\n"
    "  count(*) FILTER (WHERE w.verdict = 'INVALID') AS n_invalid\n"
    "FROM cells_wide w LEFT JOIN med USING (method, model, frames, window, sink, evict, path,\n"
    "  threads, machine)\n"
    "WHERE w.run_kind = 'bench'\n"
    "GROUP BY w.method, w.model, w.frames, w.window, w.sink, w.evict, w.path, w.threads,\n"
    "  w.machine\n"
    "ORDER BY w.model, w.frames, w.window, w.machine, is_baseline DESC, w.method;\n"

    /* A cell that was measured twice, with other frames: the machines or the builds differ, or
     * something is not reproducible. Both attempts are kept. */
    "CREATE VIEW conflict AS\n"
    "SELECT a.cell, c.method, c.prompt_id, a.frames_sha256 AS frames_a,\n"
    "  b.frames_sha256 AS frames_b, sa.host AS host_a, sb.host AS host_b,\n"
    "  sa.code = sb.code AS same_code, a.session AS session_a, b.session AS session_b\n"
    "FROM attempt a JOIN attempt b ON a.cell = b.cell AND a.frames_sha256 < b.frames_sha256\n"
    "JOIN session sa ON sa.id = a.session JOIN session sb ON sb.id = b.session\n"
    "JOIN cell c ON c.key = a.cell WHERE a.outcome = 'OK' AND b.outcome = 'OK';\n"

    /* How complete the table is. */
    "CREATE VIEW coverage AS\n"
    "SELECT model, suite, method, run_kind, count(*) AS n_attempted,\n"
    "  count(*) FILTER (WHERE outcome = 'OK') AS n_ok,\n"
    "  count(*) FILTER (WHERE outcome = 'UNSUPPORTED') AS n_unsupported,\n"
    "  count(*) FILTER (WHERE outcome IN ('SKIPPED', 'INTERRUPTED')) AS n_open,\n"
    "  count(*) FILTER (WHERE outcome NOT IN ('OK', 'UNSUPPORTED', 'SKIPPED', 'INTERRUPTED'))\n"
    "    AS n_failed\n"
    "FROM cell GROUP BY model, suite, method, run_kind\n"
    "ORDER BY model, suite, method, run_kind;\n"

    "CREATE VIEW failures AS\n"
    "SELECT outcome, method, model, prompt_id, seed, frames, reason, attempt, finished, log_tail,\n"
    "  key FROM cell WHERE outcome <> 'OK' ORDER BY outcome, method, prompt_id;\n"

    /* A probed number by layer and head, averaged over cells (prompts, seeds). What does not
     * depend on the head has one row per layer. */
    "CREATE VIEW probe_heads AS\n"
    "SELECT c.method, c.is_baseline, c.model, c.frames, c.window, c.sink, c.evict, c.path,\n"
    "  p.name, p.layer, p.head, avg(p.value) AS value, sum(p.n) AS n,\n"
    "  count(DISTINCT p.cell) AS n_cells\n"
    "FROM probe p JOIN cell c ON c.key = p.cell\n"
    "WHERE c.outcome = 'OK' AND p.value IS NOT NULL AND p.layer IS NOT NULL\n"
    "  AND (p.head IS NOT NULL OR p.name IN ('recodes', 'value_changes'))\n"
    "  AND p.step IS NULL AND p.chunk IS NULL AND p.age IS NULL\n"
    "GROUP BY c.method, c.model, c.frames, c.window, c.sink, c.evict, c.path, p.name, p.layer,\n"
    "  p.head;\n"

    /* Mean, median and 95th percentile (nearest rank) over the heads of a layer. */
    "CREATE VIEW probe_by_layer AS\n"
    "WITH r AS (SELECT *,\n"
    "    row_number() OVER (PARTITION BY method, model, frames, window, sink, evict, path, name,\n"
    "      layer ORDER BY value) AS rank,\n"
    "    count(*) OVER (PARTITION BY method, model, frames, window, sink, evict, path, name,\n"
    "      layer) AS heads FROM probe_heads)\n"
    "SELECT method, max(is_baseline) AS is_baseline, model, frames, window, sink, evict, path,\n"
    "  name, layer, avg(value) AS mean,\n"
    "  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,\n"
    "  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,\n"
    "  heads, max(n_cells) AS n_cells\n"
    "FROM r GROUP BY method, model, frames, window, sink, evict, path, name, layer;\n"

    /* The same over all heads of all layers. */
    "CREATE VIEW probe_summary AS\n"
    "WITH r AS (SELECT *,\n"
    "    row_number() OVER (PARTITION BY method, model, frames, window, sink, evict, path, name\n"
    "      ORDER BY value) AS rank,\n"
    "    count(*) OVER (PARTITION BY method, model, frames, window, sink, evict, path, name)\n"
    "      AS heads FROM probe_heads)\n"
    "SELECT method, max(is_baseline) AS is_baseline, model, frames, window, sink, evict, path,\n"
    "  name, avg(value) AS mean,\n"
    "  avg(value) FILTER (WHERE rank IN ((heads + 1) / 2, (heads + 2) / 2)) AS median,\n"
    "  max(value) FILTER (WHERE rank = (95 * heads + 99) / 100) AS p95,\n"
    "  heads, max(n_cells) AS n_cells\n"
    "FROM r GROUP BY method, model, frames, window, sink, evict, path, name;\n"

    "CREATE VIEW probe_by_age AS\n"
    "SELECT c.method, max(c.is_baseline) AS is_baseline, c.model, c.frames, c.window, c.sink,\n"
    "  c.evict, c.path, p.name, p.age, avg(p.value) AS mean, sum(p.n) AS n,\n"
    "  count(DISTINCT p.cell) AS n_cells\n"
    "FROM probe p JOIN cell c ON c.key = p.cell\n"
    "WHERE c.outcome = 'OK' AND p.layer IS NULL AND p.age IS NOT NULL AND p.value IS NOT NULL\n"
    "GROUP BY c.method, c.model, c.frames, c.window, c.sink, c.evict, c.path, p.name, p.age;\n";
