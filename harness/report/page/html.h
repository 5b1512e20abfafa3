/* html.h - writes an offline report as one HTML page, with the videos in a folder next to it.
 *
 *     struct kvr_html_result r;
 *     KVR_TRY(kvr_html_write("out/demo.db", "report", &(struct kvr_html_options){ 0 }, &r));
 *
 * The function kvr_html_write writes the page report/index.html and the folder report/assets/ with
 * the videos. HTML, CSS and JavaScript come from plots/report/ and are compiled into the program.
 * The page contains its data as JSON. The page works from file://, without server or network.
 * Output is deterministic. */
#ifndef KVR_PAGE_HTML_H
#define KVR_PAGE_HTML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_html_options {
    const char *media_dir; /* path of the sweep's output folder, which contains the videos (NULL:
                            * search for the folder near the database) */
    const char *title; /* page title (NULL: the title is the names of the sweeps, or the database's
                        * file name) */
    bool single_file;  /* embeds the videos in the page, as many as fit into cap_bytes */
    int64_t cap_bytes; /* size limit of a single-file page in bytes; the value 0 means 10 MB */
};

struct kvr_html_result {
    char path[1024]; /* path of the page */
    int64_t bytes;   /* size of the page in bytes, without files next to it */
    int n_cells, n_videos;
    /* Numbers of videos that the report omits. n_gone: the file is missing. n_other: the file's
     * size or SHA-256 differs from the database's. n_no_room: the page would exceed cap_bytes. */
    int n_gone, n_other, n_no_room;
};

/* KVR_ENOTFOUND and KVR_ESCHEMA have the meanings described for kvr_store_query(). KVR_EIO and
 * KVR_EFULL name the file that could not be written. */
enum kvr_status kvr_html_write(const char *db_path, const char *out_dir,
                               const struct kvr_html_options *options, struct kvr_html_result *out);

/* Finds the output folder that contains `path`, the file of a video or of its frames. If `out_dir`
 * is not NULL, only that folder is tried. Otherwise the search tries the folder that the sweep
 * wrote to, and then folders near the database. If no folder contains the file, *out is NULL;
 * otherwise the caller frees *out. KVR_ENOMEM. */
enum kvr_status kvr_html_media(char **out, const char *db_path, const char *out_dir,
                               const char *path);

/* Writes the page's data as one JSON object. Every '<' is escaped, so the object is safe inside a
 * script element. `media` is the folder of videos and frames; NULL: no files. */
enum kvr_status kvr_html_data(const char *db_path, const char *media, const char *title, FILE *to);

/* Text of the HTML page, the CSS and the JavaScript; the Makefile generates the arrays from
 * plots/report/. */
extern const char kvr_report_page[], kvr_report_style[], kvr_report_script[];

#endif
