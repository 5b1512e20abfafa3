/* board_page.c - writes a leaderboard page with one table for each combination of model, settings
 * and machine. */
#include "harness/report/page/board_page.h"

#include <stdio.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/report/table/escape.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; img-src data:\">\n"
    "<link rel=\"icon\" href=\"data:,\">\n<title>kvreel board</title>\n<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 "
    "1rem; "
    "}\n"
    "table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem; }\n"
    "th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; "
    "vertical-align: "
    "top; }\n"
    "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "tr.class th { background: #8882; }\n"
    "code { font-size: 12px; overflow-wrap: anywhere; }\n"
    "p.place { margin: 0; } .hash { color: #888; }\n"
    "</style>\n</head>\n<body>\n<h1>kvreel board</h1>\n";

static const char *word(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static void put(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    kvr_escape_html(to, text);
    fputs(after, to);
}

static void put_number(FILE *to, const json_t *x, int digits)
{
    if (json_is_number(x))
        fprintf(to, "%.*f", digits, json_number_value(x));
    else
        fputs("-", to);
}

/* Writes the first `digits` hexadecimal digits of each hash in a list. The file board.json has the
 * complete hashes. */
static void put_hashes(FILE *to, const json_t *list, int digits)
{
    const json_t *x;
    size_t i;

    json_array_foreach(list, i, x)
    {
        char text[64];

        snprintf(text, sizeof text, "%.*s%s", digits, json_string_value(x),
                 strstr(json_string_value(x), "-dirty") ? "-dirty" : "");
        put(to, i ? " <code class=\"hash\" title=\"" : "<code class=\"hash\" title=\"",
            json_string_value(x), "\">");
        put(to, "", text, "</code>");
    }
}

static void put_row(FILE *to, const json_t *r)
{
    const bool ranked = json_is_integer(json_object_get(r, "rank"));

    fputs("<tr><td class=\"n\">", to);
    if (ranked)
        fprintf(to, "%lld%s", (long long)json_integer_value(json_object_get(r, "rank")),
                json_is_true(json_object_get(r, "tied")) ? " =" : "");
    put(to, "</td><td>", word(r, "method"), "</td><td class=\"n\">");
    put_number(to, json_object_get(r, "bits"), 2);
    fputs("</td><td class=\"n\">", to);
    put_number(to, json_object_get(r, "mean"), 3);
    fputs("</td><td class=\"n\">", to);
    put_number(to, json_object_get(r, "lo"), 3);
    fputs(" .. ", to);
    put_number(to, json_object_get(r, "hi"), 3);
    fprintf(to, "</td><td class=\"n\">%lld</td><td class=\"n\">%lld/%lld</td><td class=\"n\">",
            (long long)json_integer_value(json_object_get(r, "prompts")),
            (long long)json_integer_value(json_object_get(r, "ok")),
            (long long)json_integer_value(json_object_get(r, "attempted")));
    put_number(to, json_object_get(r, "runtime_s"), 2);
    fputs("</td><td>", to);
    put(to, "<code>", word(r, "rerun"), "</code><br>commit ");
    put_hashes(to, json_object_get(r, "commits"), 10);
    fputs(" database ", to);
    put_hashes(to, json_object_get(r, "databases"), 12);
    fputs("</td></tr>\n", to);
}

static void put_place(FILE *to, const json_t *p, const json_t *rule)
{
    const json_t *class, *r;
    size_t i, k;

    put(to, "<h2>", word(p, "model"), "</h2>\n");
    put(to, "<p class=\"place\">weights <code class=\"hash\">", word(p, "model_sha256"),
        "</code></p>\n");
    put(to, "<p class=\"place\">", word(p, "settings"), "</p>\n");
    put(to, "<p class=\"place\">", word(p, "machine"), "</p>\n<table>\n");
    fputs("<tr><th class=\"n\">rank</th><th>method</th><th class=\"n\">bits per element</th><th "
          "class=\"n\">",
          to);
    put(to, "", word(rule, "metric"), "");
    if (strcmp(word(rule, "unit"), "1") != 0)
        put(to, " (", word(rule, "unit"), ")");
    fputs("</th>", to);
    fputs("<th class=\"n\">95 % interval</th><th class=\"n\">prompts</th><th "
          "class=\"n\">finished/attempted "
          "cells</th>"
          "<th class=\"n\">runtime (s)</th><th>command that runs the cells again</th></tr>\n",
          to);
    json_array_foreach(json_object_get(p, "classes"), i, class)
    {
        const json_t *most = json_object_get(class, "bits_at_most");

        if (json_is_integer(most))
            fprintf(to,
                    "<tr class=\"class\"><th colspan=\"9\">more than %lld, at most %lld bits per "
                    "element</th></tr>\n",
                    (long long)json_integer_value(most) - 1, (long long)json_integer_value(most));
        else
            fputs("<tr class=\"class\"><th colspan=\"9\">not ranked: the reference, and rows "
                  "without a "
                  "number</th></tr>\n",
                  to);
        json_array_foreach(json_object_get(class, "rows"), k, r) put_row(to, r);
    }
    fputs("</table>\n", to);
}

static void put_sources(FILE *to, const json_t *sources)
{
    const json_t *s;
    size_t i;

    fputs("<h2>Databases</h2>\n<table>\n<tr><th>file</th><th>sha256</th><th "
          "class=\"n\">runs</th></tr>\n",
          to);
    json_array_foreach(sources, i, s)
    {
        put(to, "<tr><td>", word(s, "file"), "");
        fputs(json_is_true(json_object_get(s, "package")) ? ", a package, verified" : "", to);
        put(to, "</td><td><code>", word(s, "sha256"), "</code></td>");
        fprintf(to, "<td class=\"n\">%lld</td></tr>\n",
                (long long)json_integer_value(json_object_get(s, "runs")));
    }
    fputs("</table>\n", to);
}

enum kvr_status kvr_board_page(const json_t *doc, char **out)
{
    const json_t *rule = json_object_get(doc, "rule"), *p;
    size_t n, i;
    FILE *to = kvr_text_open(out, &n);

    if (to) {
        fputs(head, to);
        put(to, "<p>", word(rule, "text"), "");
        put(to, " Ranked by ", word(rule, "metric"), ": ");
        put(to, "", word(rule, "title"), "; ");
        fputs(json_integer_value(json_object_get(rule, "direction")) > 0 ? "higher" : "lower", to);
        fprintf(
            to,
            " is better. With fewer than %lld shared prompts all ranks are ties. A rank "
            "with = is shared. The same as data: <a href=\"board.json\">board.json</a>. Commands "
            "are run in this folder.</p>\n",
            (long long)json_integer_value(json_object_get(rule, "least_prompts")));
        json_array_foreach(json_object_get(doc, "places"), i, p) put_place(to, p, rule);
        put_sources(to, json_object_get(doc, "sources"));
        fputs("</body>\n</html>\n", to);
    }
    return kvr_text_close(to, out)
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM, "board: out of memory while allocating the page");
}
