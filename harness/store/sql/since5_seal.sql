-- Checksums: of a cell with everything that hangs on it, of a session with its facts (seal.h).
(
  what TEXT NOT NULL CHECK(what IN ('cell', 'session')),
  key TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY(what, key)
) STRICT, WITHOUT ROWID
