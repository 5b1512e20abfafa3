"""A sweep's database as data frames. Views do the work: `summary`, `pareto_*`, ... (docs/queries.md)."""

import pathlib
import sqlite3


class Database:
    """Read-only. `table(name)` and `query(sql)` give a pandas.DataFrame where pandas is installed,
    else a dict of columns (lists; None where there is no value)."""

    def __init__(self, path):
        path = pathlib.Path(path)
        if not path.is_file():
            raise FileNotFoundError("no database %s" % path)
        self._db = sqlite3.connect("%s?mode=ro" % path.resolve().as_uri(), uri=True)
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'cell'").fetchone():
            raise ValueError("%s is no database of kvreel: it has no table 'cell'" % path)

    def names(self):
        """Tables and views."""
        rows = self._db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                                "AND name NOT LIKE 'sqlite_%' ORDER BY name")
        return [name for name, in rows]

    def query(self, sql, arguments=()):
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
        if name not in self.names():
            raise KeyError("no table or view %r; there are %s" % (name, ", ".join(self.names())))
        return self.query('SELECT * FROM "%s"' % name)

    def close(self):
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        return False


def open(path):
    """The database that `kvreel run` wrote."""
    return Database(path)
