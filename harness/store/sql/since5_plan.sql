-- The cells of each sweep. cost: predicted number of arithmetic operations of the cell's rollout.
(
  sweep TEXT NOT NULL REFERENCES sweep(id),
  cell TEXT NOT NULL,
  method TEXT NOT NULL,
  model TEXT NOT NULL,
  suite TEXT NOT NULL,
  prompt_id TEXT NOT NULL,
  run_kind TEXT NOT NULL,
  cost REAL NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('planned', 'excluded', 'unsupported', 'enough')),
  PRIMARY KEY(sweep, cell)
) STRICT, WITHOUT ROWID
