/* html.h - a report to open in a browser: one page, offline, with the videos beside it.
 *
 *     struct kvr_html_result r;
 *     KVR_TRY(kvr_html_write("out/demo.db", "report", &(struct kvr_html_options){ 0 }, &r));
 *
 * writes report/index.html, and report/assets/ with the videos. The page's markup, style and
 * script are plots/report/, built into the program; the data stand in the page as JSON. It needs
 * no server and no network: it works from file://. The same database gives the same files. */
#ifndef KVR_REPORT_HTML_H
#define KVR_REPORT_HTML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_html_options {
    const char *media_dir; /* the sweep's out folder; NULL: looked for near the database */
    const char *title;     /* of the page; NULL: the sweeps' names, else the database's */
    bool single_file;      /* videos go into the page, as many as fit */
    int64_t cap_bytes;     /* of that file; 0: 10 MB */
};

struct kvr_html_result {
    char path[1024]; /* of the page */
    int64_t bytes;   /* its size */
    int n_cells, n_videos;
    /* Cells with a video in the database that is not in the report, because there is no such file,
     * because it is not the one that was measured, because the single file has no room. */
    int n_gone, n_other, n_no_room;
};

/* KVR_ENOTFOUND, KVR_ESCHEMA as kvr_store_query(); KVR_EIO, KVR_EFULL name the file. */
enum kvr_status kvr_html_write(const char *db_path, const char *out_dir,
                               const struct kvr_html_options *options, struct kvr_html_result *out);

/* The sweep's out folder, where `path` of an artifact exists: as told (NULL: not), else as the
 * sweep said, else around the database. *out NULL: nowhere; else free() it. KVR_ENOMEM alone. */
enum kvr_status kvr_html_media(char **out, const char *db_path, const char *told, const char *path);

/* The data of the page, as one JSON object that can stand inside a script element: whatever texts
 * the database holds, no '<' comes out. `media`, where its files are, may be NULL. */
enum kvr_status kvr_html_data(const char *db_path, const char *media, const char *title, FILE *to);

/* Built from plots/report/ by the Makefile. */
extern const char kvr_report_page[], kvr_report_style[], kvr_report_script[];

#endif
