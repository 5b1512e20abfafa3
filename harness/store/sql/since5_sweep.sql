-- A plan: all cells that a config stands for, whatever became of them. id: hash of the cells' keys;
-- config: its path, with what was set on the command line.
(
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  cells INTEGER NOT NULL
) STRICT, WITHOUT ROWID
