-- Facts of a session: the machine, its folder, restrictions of the run.
(
  session TEXT NOT NULL REFERENCES session(id),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY(session, name)
) STRICT, WITHOUT ROWID
