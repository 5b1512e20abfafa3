-- State of the machine while a cell ran: shares of processor time, and clocks in MHz.
(
  cell TEXT NOT NULL REFERENCES cell(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value REAL,
  PRIMARY KEY(cell, name)
) STRICT, WITHOUT ROWID
