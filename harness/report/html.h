/* html.h - an offline report in one HTML page, with the videos in a folder next to it.
 *
 *     struct kvr_html_result r;
 *     KVR_TRY(kvr_html_write("out/demo.db", "report", &(struct kvr_html_options){ 0 }, &r));
 *
 * writes report/index.html, and report/assets/ with the videos. Markup, style and script come from
 * plots/report/, compiled into the program; the data are JSON in the page. The page works from
 * file://, without server or network. Output is deterministic. */
#ifndef KVR_REPORT_HTML_H
#define KVR_REPORT_HTML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"

struct kvr_html_options {
    const char *media_dir; /* the sweep's out folder; NULL: searched near the database */
    const char *title; /* title of the page; NULL: the names of the sweeps, else of the database */
    bool single_file;  /* embed videos in the page, as many as fit */
    int64_t cap_bytes; /* size limit of the single file; 0: 10 MB */
};

struct kvr_html_result {
    char path[1024]; /* path of the page */
    int64_t bytes;   /* size of the page */
    int n_cells, n_videos;
    /* Numbers of videos that the report omits because the file is missing, because it differs from
     * the measured file, and because the single file has no room. */
    int n_gone, n_other, n_no_room;
};

/* KVR_ENOTFOUND, KVR_ESCHEMA as in kvr_store_query(); KVR_EIO, KVR_EFULL give the file. */
enum kvr_status kvr_html_write(const char *db_path, const char *out_dir,
                               const struct kvr_html_options *options, struct kvr_html_result *out);

/* Finds the sweep's out folder, which contains the artifact `path`: `out_dir` if not NULL, else the
 * sweep's own, else near the database. *out NULL: not found; otherwise free() it. The only failure
 * is KVR_ENOMEM. */
enum kvr_status kvr_html_media(char **out, const char *db_path, const char *out_dir,
                               const char *path);

/* The page's data as one JSON object that is safe inside a script element: it contains no '<',
 * whatever the database holds. `media`, the folder of its files, may be NULL. */
enum kvr_status kvr_html_data(const char *db_path, const char *media, const char *title, FILE *to);

/* Generated from plots/report/ by the Makefile. */
extern const char kvr_report_page[], kvr_report_style[], kvr_report_script[];

#endif
