-- Checksums (checksum.h) of each cell with its rows in other tables, of each session with its rows in `about`, and
-- of each sweep with its rows in `plan`.
(
  what TEXT NOT NULL CHECK(what IN ('cell', 'session', 'sweep')),
  key TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY(what, key)
) STRICT, WITHOUT ROWID
