-- Cells that are running now, or that were running when their session died. device: the cell's device if the
-- session uses several, else ''.
(
  cell TEXT PRIMARY KEY,
  session TEXT NOT NULL REFERENCES session(id),
  started TEXT NOT NULL,
  device TEXT NOT NULL
) STRICT, WITHOUT ROWID
