-- Checksums of a cell with all its rows, of a session with its facts, and of a sweep with its plan
-- (checksum.h).
(
  what TEXT NOT NULL CHECK(what IN ('cell', 'session', 'sweep')),
  key TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY(what, key)
) STRICT, WITHOUT ROWID
