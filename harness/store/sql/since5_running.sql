-- Cells being measured, or interrupted when their session died. device: which one of several, or ''.
(
  cell TEXT PRIMARY KEY,
  session TEXT NOT NULL REFERENCES session(id),
  started TEXT NOT NULL,
  device TEXT NOT NULL
) STRICT, WITHOUT ROWID
