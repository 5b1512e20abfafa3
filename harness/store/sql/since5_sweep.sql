-- A plan: all cells of a config in any state. id: hash of the cells' keys; config: its path and the command
-- line's overrides.
(
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  cells INTEGER NOT NULL
) STRICT, WITHOUT ROWID
