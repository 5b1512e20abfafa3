"""Reads a sweep's database into data frames. docs/queries.md lists its tables and views, such as `summary`."""

import pathlib
import sqlite3


class Database:
    """A sweep's database, opened read-only.

    `table(name)` and `query(sql)` return a pandas.DataFrame if pandas is installed, else a dict {column: list of
    values} with None for NULL. Raises FileNotFoundError if there is no such file, and ValueError if it is not a
    database of kvreel."""

    def __init__(self, path):
        path = pathlib.Path(path)
        if not path.is_file():
            raise FileNotFoundError("no database file %s; `kvreel run` writes one" % path)
        self._db = sqlite3.connect("%s?mode=ro" % path.resolve().as_uri(), uri=True)
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cell'").fetchone():
            raise ValueError("%s is not a database of kvreel: it has no table 'cell'" % path)

    def names(self):
        """Returns the sorted names of all tables and views."""
        rows = self._db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                                "AND name NOT LIKE 'sqlite_%' ORDER BY name")
        return [name for name, in rows]

    def query(self, sql, arguments=()):
        """Runs one SQL query; `arguments` are the values of its placeholders `?`. Raises sqlite3.Error."""
        rows = self._db.execute(sql, arguments)
        columns = [c[0] for c in rows.description]
        rows = rows.fetchall()
        data = {c: [row[i] for row in rows] for i, c in enumerate(columns)}
        try:
            import pandas
        except ImportError:
            return data
        return pandas.DataFrame(data, columns=columns)

    def table(self, name):
        """Returns all rows of a table or view. Raises KeyError if the database has no such table or view."""
        if name not in self.names():
            raise KeyError("no table or view %r; the database has %s" % (name, ", ".join(self.names())))
        return self.query('SELECT * FROM "%s"' % name)

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        return False


def open(path):
    """Opens the database at `path`, written by `kvreel run`, as a Database."""
    return Database(path)
