/* catalogue.c - `kvreel list methods --md`. It prints the registry's rows, so that the
 * documentation's table cannot differ from it. */
#include "harness/cli/catalogue.h"

#include <errno.h>
#include <string.h>

#include "methods/method.h"

/* heads and head width (Wan 2.1 1.3B) for the bits per element */
enum { HEADS = 12, HEAD_DIM = 128 };

/* Writes text with '|' escaped, because an unescaped '|' would end the Markdown table's cell. */
static void put(FILE *to, const char *text)
{
    for (; *text; text++)
        fprintf(to, *text == '|' ? "\\|" : "%c", *text);
}

struct piece {
    const char *text;
    size_t n;
};

/* A method's note describes differences between the intended method and the study's code. It
 * consists of pieces such as "Intended: X. Study: Y.", and many notes share pieces. Returns the
 * first piece of *text and advances *text past it. */
static struct piece next_piece(const char **text)
{
    const char *from = *text, *at = from;
    bool study = false, open = strncmp(from, "Both:", 5) == 0;

    for (; *at; at++) {
        const bool intended = strncmp(at, "Intended:", 9) == 0;

        if (at > from && (strncmp(at, "Both:", 5) == 0 || (intended && !open) ||
                          (study && strncmp(at, "Study:", 6) == 0)))
            break;
        open = open && !intended;
        study = study || strncmp(at, "Study:", 6) == 0;
    }
    *text = at;
    while (at > from && at[-1] == ' ')
        at--;
    return (struct piece){ from, (size_t)(at - from) };
}

/* Distinct pieces of all methods' notes (see next_piece) in order of appearance; the table refers
 * to them by letter (a, b, ...). */
struct pieces {
    struct piece piece[26];
    int n;
};

static int letter_of(const struct pieces *all, struct piece p)
{
    int i = 0;

    while (i < all->n && (all->piece[i].n != p.n || memcmp(all->piece[i].text, p.text, p.n) != 0))
        i++;
    return i;
}

static enum kvr_status find_pieces(struct pieces *all)
{
    const struct kvr_method *m;

    all->n = 0;
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++) {
        const char *text = m->differs;

        while (text && *text) {
            const struct piece p = next_piece(&text);

            if (letter_of(all, p) < all->n)
                continue;
            if (all->n == (int)(sizeof all->piece / sizeof *all->piece))
                return kvr_fail(
                    KVR_EINTERNAL,
                    "catalogue: the methods' `differs` texts have more than the limit of %d "
                    "distinct items; enlarge struct pieces",
                    all->n);
            all->piece[all->n++] = p;
        }
    }
    return KVR_OK;
}

static bool values_as_keys(const struct kvr_method *m, const struct kvr_scheme *p)
{
    bool same = strcmp(m->k, m->v) == 0;

    for (int t = 1; t < p->n_tiers; t++)
        same =
            same && strcmp(m->tier_k[t] ? m->tier_k[t] : "", m->tier_v[t] ? m->tier_v[t] : "") == 0;
    return same;
}

static void put_codecs(FILE *to, const struct kvr_method *m, bool keys, const struct kvr_scheme *p)
{
    const char *const *tier = keys ? m->tier_k : m->tier_v;

    if (!keys && values_as_keys(m, p))
        return;
    fprintf(to, keys ? "`" : "; V `");
    put(to, keys ? m->k : m->v);
    fprintf(to, "`");
    for (int t = 1; t < p->n_tiers; t++)
        if (tier[t]) {
            fprintf(to, "; %s `", kvr_scheme_tier_name(p, t));
            put(to, tier[t]);
            fprintf(to, "`");
        }
}

/* Writes "; name[i] `text[i]`" for every text[i] that is not NULL. */
static void put_parts(FILE *to, const char *const *name, const char *const *text, int n)
{
    for (int i = 0; i < n; i++)
        if (text[i]) {
            fprintf(to, "; %s `", name[i]);
            put(to, text[i]);
            fprintf(to, "`");
        }
}

static void put_bits(FILE *to, const struct kvr_scheme *p)
{
    const double bits = kvr_scheme_bits(p, HEADS, HEAD_DIM);

    fprintf(to, bits >= 0 ? " | %.4g" : " |", bits);
}

static enum kvr_status put_row(FILE *to, const struct kvr_method *m, const struct pieces *all)
{
    static const char *const name[] = { "tiers", "retention", "reuse", "sampler" };
    const char *const part[] = { m->tiers, m->retention, m->reuse,
                                 m->last_step ? "commit=last_step" : NULL };
    const char *text = m->differs;
    struct kvr_scheme *p;

    KVR_TRY(kvr_scheme_open(&p, m->name, NULL, 0));
    fprintf(to, "| %s | ", m->name);
    put_codecs(to, m, true, p);
    put_codecs(to, m, false, p);
    put_parts(to, name, part, 4);
    put_bits(to, p);
    if (m->study)
        fprintf(to, " | ");
    while (m->study && text && *text)
        fprintf(to, "%c", 'a' + letter_of(all, next_piece(&text)));
    fprintf(to, " |\n");
    kvr_scheme_close(&p);
    return KVR_OK;
}

/* Writes the table of the published study's methods (study true) or of all other methods (study
 * false). */
static enum kvr_status put_table(FILE *to, bool study, const struct pieces *all)
{
    const struct kvr_method *m;

    fprintf(to, study ? "| method of the study | parts | bits | differs |\n|---|---|---|---|\n"
                      : "\n| other method | parts | bits |\n|---|---|---|\n");
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        if (m->study == study)
            KVR_TRY(put_row(to, m, all));
    return KVR_OK;
}

enum kvr_status kvr_catalogue_write(FILE *to)
{
    struct pieces all;

    KVR_TRY(find_pieces(&all));
    KVR_TRY(put_table(to, true, &all));
    fprintf(to, "\nHow `NAME@study` differs:\n\n");
    for (int i = 0; i < all.n; i++)
        fprintf(to, "* %c: %.*s\n", 'a' + i, (int)all.piece[i].n, all.piece[i].text);
    KVR_TRY(put_table(to, false, &all));
    errno = 0;
    if (fflush(to) == 0 && !ferror(to))
        return KVR_OK;
    return kvr_fail(KVR_EIO, "stdout: %s", errno ? strerror(errno) : "write failed");
}
