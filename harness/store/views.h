/* views.h - pieces of statements that every table of the reports shares. */
#ifndef KVR_STORE_VIEWS_H
#define KVR_STORE_VIEWS_H

/* A metric of the run of a row `w` of cells_wide: its own, else one that another cell of the same
 * run was scored by. `what`: value, extra. */
#define KVR_SQL_SCORE(w, what, name)                                                               \
    "coalesce((SELECT m." what " FROM metric m WHERE m.cell = " w ".key AND m.name = '" name       \
    "'), (SELECT m." what " FROM cell t JOIN metric m ON m.cell = t.key WHERE t.run = " w          \
    ".run AND m.name = '" name "' AND m.value IS NOT NULL ORDER BY t.finished DESC LIMIT 1))"

/* The cell of that run whose series `name` counts. */
#define KVR_SQL_SERIES_OF(w, name)                                                                 \
    "coalesce((SELECT x.cell FROM series x WHERE x.cell = " w ".key AND x.name = '" name           \
    "' LIMIT 1), (SELECT t.key FROM cell t JOIN series x ON x.cell = t.key WHERE t.run = " w       \
    ".run AND x.name = '" name "' ORDER BY t.finished DESC LIMIT 1))"

#endif
