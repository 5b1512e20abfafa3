-- Properties of a session by name, such as its machine, its output folder, and --filter or --limit of its run.
(
  session TEXT NOT NULL REFERENCES session(id),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY(session, name)
) STRICT, WITHOUT ROWID
