-- Metrics that are not of this program: what they are measured in, which way is better.
(
  name TEXT PRIMARY KEY,
  unit TEXT NOT NULL,
  better TEXT NOT NULL CHECK(better IN ('higher', 'lower', 'unknown')),
  source TEXT NOT NULL
) STRICT, WITHOUT ROWID
