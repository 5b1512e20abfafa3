-- Conditions during a cell: shares of processor time, clocks in MHz.
(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value REAL,
  PRIMARY KEY(cell, name)
) STRICT, WITHOUT ROWID
