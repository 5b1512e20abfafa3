-- Sweeps: each is the set of all cells of a config. id: hash of the cells' keys; config: path of the config and
-- overrides of the command line; cells: number of cells.
(
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  cells INTEGER NOT NULL
) STRICT, WITHOUT ROWID
