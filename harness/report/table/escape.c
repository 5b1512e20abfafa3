/* escape.c - writes text escaped for one file format per function. */
#include "harness/report/table/escape.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "harness/core/utf8.h"

static int plain(unsigned char c)
{
    return c < 32 || c == 127 ? ' ' : c;
}

void kvr_escape_text(FILE *to, const char *s)
{
    for (; *s; s++)
        fputc(plain((unsigned char)*s), to);
}

/* Returns whether a character is Markdown markup. An underscore inside a word is not markup
 * (CommonMark), so the many underscores of method names need no escape. */
static int is_md_markup(const char *start, const char *s)
{
    if (*s == '_')
        return s == start || !isalnum((unsigned char)s[-1]) || !isalnum((unsigned char)s[1]);
    return strchr("\\`*[]<>|&#~!", *s) != NULL;
}

void kvr_escape_md(FILE *to, const char *s)
{
    for (const char *p = s; *p; p++) {
        if (is_md_markup(s, p))
            fputc('\\', to);
        fputc(plain((unsigned char)*p), to);
    }
}

void kvr_escape_html(FILE *to, const char *s)
{
    for (; *s; s++)
        if (*s == '<')
            fputs("&lt;", to);
        else if (*s == '&')
            fputs("&amp;", to);
        else
            fputc(plain((unsigned char)*s), to);
}

void kvr_escape_latex(FILE *to, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '\\':
            fputs("\\textbackslash{}", to);
            break;
        case '~':
            fputs("\\textasciitilde{}", to);
            break;
        case '^':
            fputs("\\textasciicircum{}", to);
            break;
        case '<':
            fputs("\\textless{}", to);
            break;
        case '>':
            fputs("\\textgreater{}", to);
            break;
        case '|':
            fputs("\\textbar{}", to);
            break;
        case '"':
            fputs("\\textquotedbl{}", to);
            break;
        case '`':
            fputs("\\textasciigrave{}", to);
            break;
        case '-': /* TeX would print "--" as a dash and "''" as a closing quote */
        case ',':
        case '\'':
            fputc(*s, to);
            fputs(s[1] == *s ? "{}" : "", to);
            break;
        case '&':
        case '%':
        case '$':
        case '#':
        case '_':
        case '{':
        case '}':
            fputc('\\', to);
            fputc(*s, to);
            break;
        default:
            fputc(plain((unsigned char)*s), to);
        }
    }
}

/* RFC 4180. An empty text is quoted, so that it differs from a missing value. A text that starts
 * like a formula gets a leading apostrophe, so that spreadsheets do not evaluate it. */
void kvr_escape_csv(FILE *to, const char *s)
{
    const bool formula = s[0] && s[1] && strchr("=+-@\t\r", s[0]);

    if (*s && !formula && !strpbrk(s, ",\"\r\n")) {
        fputs(s, to);
        return;
    }
    fputs(formula ? "\"'" : "\"", to);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', to);
        fputc(*s, to);
    }
    fputc('"', to);
}

void kvr_escape_json(FILE *to, const char *s)
{
    fputc('"', to);
    while (*s) {
        const int n = kvr_utf8_length(s);
        const unsigned char c = (unsigned char)*s;

        if (n == 0) { /* invalid UTF-8 becomes the replacement character */
            fputs("\\ufffd", to);
            s++;
            continue;
        }
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 32 || c == 127)
            fprintf(to, "\\u%04x", c);
        else
            fwrite(s, 1, (size_t)n, to);
        s += n;
    }
    fputc('"', to);
}

void kvr_escape_tsv(FILE *to, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '\t':
            fputs("\\t", to);
            break;
        case '\n':
            fputs("\\n", to);
            break;
        case '\r':
            fputs("\\r", to);
            break;
        case '\\':
            fputs("\\\\", to);
            break;
        default:
            fputc(plain((unsigned char)*s), to);
        }
    }
}

/* Inside single quotes, gnuplot interprets no escapes, `command` or @macro. Doubled single quotes
 * do not work in every context, so the function writes a quote as a separate string and joins the
 * strings: 'it' . "'" . 's'. */
void kvr_escape_gnuplot(FILE *to, const char *s)
{
    fputc('\'', to);
    for (; *s; s++) {
        if (*s == '\'')
            fputs("' . \"'\" . '", to);
        else
            fputc(plain((unsigned char)*s), to);
    }
    fputc('\'', to);
}

int kvr_escape_width(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}
