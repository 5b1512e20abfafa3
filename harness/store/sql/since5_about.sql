-- What a session was, fact by fact: who the machine is, its folder, what was left out.
(
  session TEXT NOT NULL REFERENCES session(id),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY(session, name)
) STRICT, WITHOUT ROWID
