/* prompt.c - parses a prompt in a small English grammar into KVR_PROMPT_SLOTS word ids of a model's
 * vocabulary. */
#include "harness/workload/prompt.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"

enum { OBJECT = 6, GROUND = 12, CAMERA = 14, PAD = 15, WORD_MAX = 48 };

enum kind { SIZE, COLOR, TEX, SHAPE, MOTION, DIR, BG, CAM, N_KIND };

static const char *const prefixes[N_KIND] = { "size:",   "color:", "tex:", "shape:",
                                              "motion:", "dir:",   "bg:",  "cam:" };
static const char *const kind_names[N_KIND] = { "a size",       "a colour",     "a texture",
                                                "a shape",      "a motion",     "a direction",
                                                "a background", "a camera move" };

/* Part of an act (the description of one shot) that is being read: first object, second object,
 * background or camera. */
enum part { FIRST, SECOND, BEHIND, LENS };

static const char *part_name(enum part part)
{
    switch (part) {
    case FIRST:
        return "an object";
    case SECOND:
        return "the second object";
    case BEHIND:
        return "the background";
    case LENS:
        break;
    }
    return "the camera";
}

static const char *const fillers[] = { "a",    "an",  "the",   "and",        "is",     "it",
                                       "then", "at",  "its",   "background", "ground", "moves",
                                       "to",   "now", "while", "stays",      NULL };
static const char *const steers[] = { "over",  "on", "against", "camera",  "in",
                                      "front", "of", "pans",    "panning", NULL };

struct reader {
    const struct kvr_model_config *cfg;
    const char *text, *at;
    int n_chunks;
    /* the last word read */
    char word[WORD_MAX];
    size_t column;
    /* the current act */
    enum part part;
    int ids[KVR_PROMPT_SLOTS];
    bool is_set[KVR_PROMPT_SLOTS];
    int n_words;
    bool pans; /* the last word was "pans", so a direction must follow */
};

/* Returns the index of the entry `group` + `word` (such as "shape:" + "disc") in the vocabulary;
 * -1: absent. */
static int lookup(const struct kvr_model_config *c, const char *group, const char *word)
{
    size_t n = strlen(group);

    for (int i = 0; i < c->n_vocabulary; i++)
        if (strncmp(c->vocabulary[i], group, n) == 0 && strcmp(c->vocabulary[i] + n, word) == 0)
            return i;
    return -1;
}

/* Tests whether `word` is a form of `verb`: of "bounces", bounce and bouncing; of "spins",
 * spinning. */
static bool is_form(const char *verb, const char *word)
{
    size_t n = strlen(verb), len = strlen(word);
    size_t stem;

    if (strcmp(verb, word) == 0)
        return true;
    if (n < 3 || verb[n - 1] != 's')
        return false;
    n--;
    if (len == n && strncmp(verb, word, n) == 0)
        return true;
    if (len < 4 || strcmp(word + len - 3, "ing") != 0)
        return false;
    stem = len - 3;
    if (stem == n)
        return strncmp(verb, word, n) == 0;
    if (stem + 1 == n)
        return verb[n - 1] == 'e' && strncmp(verb, word, stem) == 0;
    return stem == n + 1 && word[n] == verb[n - 1] && strncmp(verb, word, n) == 0;
}

static int lookup_motion(const struct kvr_model_config *c, const char *word)
{
    size_t n = strlen(prefixes[MOTION]);

    for (int i = 0; i < c->n_vocabulary; i++)
        if (strncmp(c->vocabulary[i], prefixes[MOTION], n) == 0 &&
            is_form(c->vocabulary[i] + n, word))
            return i;
    return -1;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Fails because r->word is unknown, and suggests the most similar known word. */
static enum kvr_status fail_unknown(const struct reader *r)
{
    const struct kvr_model_config *c = r->cfg;
    const char **names = calloc((size_t)c->n_vocabulary + 1, sizeof *names);
    const char *near;
    int n = 0;

    if (!names)
        return kvr_fail(KVR_ENOMEM, "prompt: out of memory while allocating the vocabulary");
    for (int i = 0; i < c->n_vocabulary; i++) {
        const char *colon = strchr(c->vocabulary[i], ':');

        if (colon && isalpha((unsigned char)colon[1]))
            names[n++] = colon + 1;
    }
    near = kvr_nearest(r->word, names);
    if (!near)
        near = kvr_nearest(r->word, steers);
    free(names);
    if (near)
        return kvr_fail(KVR_EINVAL,
                        "prompt: '%s' (character %zu) is not a word of this model; did you mean "
                        "'%s'? `kvreel vocabulary` lists the words",
                        r->word, r->column, near);
    return kvr_fail(KVR_EINVAL,
                    "prompt: '%s' (character %zu) is not a word of this model; `kvreel vocabulary` "
                    "lists the words",
                    r->word, r->column);
}

/* Fails because r->word, a word of the vocabulary, cannot describe the object, background or camera
 * (r->part) that is being read. */
static enum kvr_status fail_misplaced(const struct reader *r)
{
    for (int k = 0; k < N_KIND; k++)
        if (lookup(r->cfg, prefixes[k], r->word) >= 0 ||
            (k == MOTION && lookup_motion(r->cfg, r->word) >= 0))
            return kvr_fail(KVR_EINVAL, "prompt: '%s' (character %zu) is %s, which %s cannot have",
                            r->word, r->column, kind_names[k], part_name(r->part));
    return fail_unknown(r);
}

static enum kvr_status put(struct reader *r, int slot, int id)
{
    if (r->is_set[slot] && r->ids[slot] != id)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: '%s' (character %zu) contradicts the earlier word '%s'; remove one of the two",
            r->word, r->column, strchr(r->cfg->vocabulary[r->ids[slot]], ':') + 1);
    r->is_set[slot] = true;
    r->ids[slot] = id;
    return KVR_OK;
}

/* Sets all slots of an object to their defaults. check_model() has tested that the vocabulary has
 * these words. */
static void default_object(struct reader *r, int base, const char *color)
{
    const struct kvr_model_config *c = r->cfg;

    r->ids[base + SIZE] = lookup(c, "size:", "large");
    r->ids[base + COLOR] = lookup(c, "color:", color);
    r->ids[base + TEX] = lookup(c, "tex:", "solid");
    r->ids[base + SHAPE] = lookup(c, "shape:", "disc");
    r->ids[base + MOTION] = lookup(c, "motion:", "still");
    r->ids[base + DIR] = lookup(c, "dir:", "-");
}

static enum kvr_status check_model(const struct kvr_model_config *c)
{
    static const char *const need[] = { "<pad>",        "<none>",      "size:large", "color:red",
                                        "color:blue",   "color:white", "tex:solid",  "shape:disc",
                                        "motion:still", "dir:-",       "bg:plain",   "cam:static" };

    if (c->n_vocabulary == 0)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "prompt: this model has no vocabulary to encode a text; give "
                        "text embeddings instead (`kvreel embed`)");
    if (c->text_len != KVR_PROMPT_SLOTS)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "prompt: the model takes %d text tokens, but the words of a prompt are "
                        "encoded to %d tokens; give text embeddings instead (`kvreel embed`)",
                        c->text_len, KVR_PROMPT_SLOTS);
    for (size_t i = 0; i < sizeof need / sizeof *need; i++)
        if (lookup(c, "", need[i]) < 0)
            return kvr_fail(KVR_EUNSUPPORTED,
                            "prompt: the model's vocabulary lacks '%s', without which prompts "
                            "cannot be encoded; give text embeddings instead (`kvreel embed`)",
                            need[i]);
    return KVR_OK;
}

static void first_defaults(struct reader *r)
{
    const struct kvr_model_config *c = r->cfg;

    default_object(r, 0, "red");
    for (int i = OBJECT; i < GROUND; i++)
        r->ids[i] = lookup(c, "", "<none>");
    r->ids[GROUND] = lookup(c, "bg:", "plain");
    r->ids[GROUND + 1] = -1; /* background colour: apply_defaults() chooses it later */
    r->ids[CAMERA] = lookup(c, "cam:", "static");
    r->ids[PAD] = lookup(c, "", "<pad>");
}

static bool ends_word(char c)
{
    return c == '\0' || isspace((unsigned char)c) || strchr(",.;|", c);
}

static enum kvr_status fail_byte(const struct reader *r)
{
    return kvr_fail(
        KVR_EINVAL,
        "prompt: byte 0x%02x at character %zu is not allowed; need letters, '-', spaces, "
        "',', '.', ';' or '|'",
        (unsigned)(unsigned char)*r->at, (size_t)(r->at - r->text) + 1);
}

/* Reads a word of letters and dashes, and stores it in r->word in lower case. */
static enum kvr_status read_word(struct reader *r)
{
    size_t n = 0;

    r->column = (size_t)(r->at - r->text) + 1;
    while (isalpha((unsigned char)*r->at) || *r->at == '-') {
        if (n == WORD_MAX - 1)
            return kvr_fail(KVR_EINVAL,
                            "prompt: the word '%.*s...' (character %zu) is too long; at most %d "
                            "letters are allowed",
                            12, r->word, r->column, WORD_MAX - 1);
        r->word[n++] = (char)tolower((unsigned char)*r->at++);
    }
    r->word[n] = '\0';
    return ends_word(*r->at) ? KVR_OK : fail_byte(r);
}

/* Reads the next word if it is `word`; otherwise leaves the position unchanged. */
static bool take_next(struct reader *r, const char *word)
{
    const char *p = r->at;
    size_t n = strlen(word);

    while (isspace((unsigned char)*p))
        p++;
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)p[i]) != word[i])
            return false;
    if (isalpha((unsigned char)p[n]) || p[n] == '-')
        return false;
    r->at = p + n;
    return true;
}

static enum kvr_status put_object(struct reader *r)
{
    static const enum kind plain[] = { SIZE, COLOR, TEX, SHAPE };
    int base = r->part == FIRST ? 0 : OBJECT;
    int id;

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if ((id = lookup(r->cfg, prefixes[plain[i]], r->word)) >= 0)
            return put(r, base + (int)plain[i], id);
    if ((id = lookup_motion(r->cfg, r->word)) >= 0) {
        KVR_TRY(put(r, base + MOTION, id));
        if (!r->is_set[base + DIR])
            r->ids[base + DIR] = lookup(r->cfg, "dir:", "-");
        return KVR_OK;
    }
    if ((id = lookup(r->cfg, "dir:", r->word)) >= 0 && isalpha((unsigned char)r->word[0]))
        return put(r, base + DIR, id);
    return fail_misplaced(r);
}

static enum kvr_status put_ground(struct reader *r)
{
    int id = lookup(r->cfg, "bg:", r->word);

    if (id >= 0)
        return put(r, GROUND, id);
    id = lookup(r->cfg, "color:", r->word);
    if (id >= 0)
        return put(r, GROUND + 1, id);
    return fail_misplaced(r);
}

static enum kvr_status put_camera(struct reader *r)
{
    char move[WORD_MAX + 4] = "pan-";
    int id;

    if (strcmp(r->word, "pans") == 0 || strcmp(r->word, "panning") == 0) {
        r->pans = true;
        return KVR_OK;
    }
    if (!r->pans && strcmp(r->word, "still") == 0)
        return put(r, CAMERA, lookup(r->cfg, "cam:", "static"));
    strcat(move, r->word);
    id = lookup(r->cfg, "cam:", r->pans ? move : r->word);
    if (id < 0)
        return fail_misplaced(r);
    r->pans = false;
    return put(r, CAMERA, id);
}

static enum kvr_status enter(struct reader *r, enum part part)
{
    if (part < r->part || (part == r->part && part != LENS))
        return kvr_fail(
            KVR_EINVAL,
            "prompt: '%s' (character %zu) must come before %s; the order is object, second "
            "object, background, camera",
            r->word, r->column, part_name(r->part));
    if (part == SECOND && r->ids[OBJECT] == lookup(r->cfg, "", "<none>"))
        default_object(r, OBJECT, "white");
    r->part = part;
    return KVR_OK;
}

static enum kvr_status take_word(struct reader *r)
{
    r->n_words++;
    if (strcmp(r->word, "in") == 0) {
        if (!take_next(r, "front") || !take_next(r, "of"))
            return kvr_fail(
                KVR_EINVAL,
                "prompt: 'in' (character %zu) is not followed by 'front of'; need 'in front of'",
                r->column);
        return enter(r, SECOND);
    }
    if (r->part != LENS && (strcmp(r->word, "over") == 0 || strcmp(r->word, "on") == 0 ||
                            strcmp(r->word, "against") == 0))
        return enter(r, BEHIND);
    if (strcmp(r->word, "camera") == 0)
        return enter(r, LENS);
    if (strcmp(r->word, "static") == 0 && take_next(r, "camera")) {
        KVR_TRY(enter(r, LENS));
        return put(r, CAMERA, lookup(r->cfg, "cam:", "static"));
    }
    if (is_one_of(r->word, fillers))
        return KVR_OK;
    switch (r->part) {
    case FIRST:
    case SECOND:
        return put_object(r);
    case BEHIND:
        return put_ground(r);
    case LENS:
        break;
    }
    return put_camera(r);
}

/* Checks the direction of an object's motion. A drifting object without a direction drifts right.
 * With other motions a direction is an error. */
static enum kvr_status apply_object_defaults(struct reader *r, int base)
{
    bool drifts = r->ids[base + MOTION] == lookup(r->cfg, "motion:", "drifts");
    bool points = r->ids[base + DIR] != lookup(r->cfg, "dir:", "-");

    if (drifts && !points)
        r->ids[base + DIR] = lookup(r->cfg, "dir:", "right");
    if (drifts || !points)
        return KVR_OK;
    return kvr_fail(
        KVR_EINVAL,
        "prompt: direction '%s' is given, but the motion of the object is '%s'; only an "
        "object that drifts has a direction",
        strchr(r->cfg->vocabulary[r->ids[base + DIR]], ':') + 1,
        strchr(r->cfg->vocabulary[r->ids[base + MOTION]], ':') + 1);
}

static enum kvr_status apply_defaults(struct reader *r)
{
    const struct kvr_model_config *c = r->cfg;

    if (r->pans)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: 'pans' in the act that ends at character %zu is not followed by left, "
            "right, up or down",
            (size_t)(r->at - r->text));
    KVR_TRY(apply_object_defaults(r, 0));
    if (r->ids[OBJECT] != lookup(c, "", "<none>"))
        KVR_TRY(apply_object_defaults(r, OBJECT));
    if (r->ids[GROUND + 1] < 0)
        r->ids[GROUND + 1] =
            lookup(c, "color:", r->ids[COLOR] == lookup(c, "color:", "blue") ? "white" : "blue");
    return KVR_OK;
}

/* Reads the optional index of a shot's first chunk, such as "@12:". Without it, *chunk is
 * unchanged. */
static enum kvr_status read_start(struct reader *r, int *chunk)
{
    char *end;
    long v;

    while (isspace((unsigned char)*r->at))
        r->at++;
    if (*r->at != '@')
        return KVR_OK;
    r->column = (size_t)(r->at - r->text) + 1;
    v = isdigit((unsigned char)r->at[1]) ? strtol(r->at + 1, &end, 10) : -1;
    if (v < 0 || *end != ':')
        return kvr_fail(KVR_EINVAL,
                        "prompt: '@' (character %zu) must be followed by the index of a chunk and "
                        "':', as in '@4:'",
                        r->column);
    if (v >= r->n_chunks)
        return kvr_fail(KVR_EINVAL,
                        "prompt: '@%ld:' (character %zu): the video has no such chunk, need 0..%d",
                        v, r->column, r->n_chunks - 1);
    *chunk = (int)v;
    r->at = end + 1;
    return KVR_OK;
}

/* Reads an act, the description of one shot. It ends at ';', '|' or the end of the text. */
static enum kvr_status read_act(struct reader *r, int *chunk)
{
    r->part = FIRST;
    r->n_words = 0;
    r->pans = false;
    memset(r->is_set, 0, sizeof r->is_set);
    KVR_TRY(read_start(r, chunk));
    for (;;) {
        unsigned char ch = (unsigned char)*r->at;

        if (ch == '\0' || ch == ';' || ch == '|')
            break;
        if (isspace(ch) || ch == ',' || ch == '.') {
            r->at++;
            continue;
        }
        if (!isalpha(ch))
            return fail_byte(r);
        KVR_TRY(read_word(r));
        KVR_TRY(take_word(r));
    }
    if (r->n_words == 0)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: the act before character %zu is empty; acts are separated by ';' or '|'",
            (size_t)(r->at - r->text) + 1);
    return apply_defaults(r);
}

static enum kvr_status place_acts(struct kvr_prompt *p, int n_chunks)
{
    if (p->n_acts > n_chunks)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: %d acts (separated by ';' or '|'), but the video has only %d chunks; each act "
            "needs at least one chunk",
            p->n_acts, n_chunks);
    for (int i = 0; i < p->n_acts; i++) {
        int *from = &p->act[i].from_chunk;

        if (*from < 0)
            *from = i * n_chunks / p->n_acts;
        if (i == 0 && *from != 0)
            return kvr_fail(
                KVR_EINVAL,
                "prompt: the first act (the text before the first ';' or '|') begins at chunk "
                "%d, but must begin at chunk 0",
                *from);
        if (i > 0 && *from <= p->act[i - 1].from_chunk)
            return kvr_fail(KVR_EINVAL,
                            "prompt: act %d begins at chunk %d, but must begin after act %d, which "
                            "begins at chunk %d",
                            i + 1, *from, i, p->act[i - 1].from_chunk);
    }
    return KVR_OK;
}

enum kvr_status kvr_prompt_parse(const struct kvr_model_config *cfg, const char *text, int n_chunks,
                                 struct kvr_prompt *out)
{
    struct reader r = { .cfg = cfg, .text = text, .at = text, .n_chunks = n_chunks };
    struct kvr_prompt p = { 0 };

    KVR_TRY(check_model(cfg));
    if (n_chunks < 1)
        return kvr_fail(KVR_EINVAL, "prompt: a video of %d chunks was requested, need at least 1",
                        n_chunks);
    if (strnlen(text, KVR_PROMPT_MAX + 1) > KVR_PROMPT_MAX)
        return kvr_fail(KVR_EINVAL, "prompt: the text has %zu characters, at most %d are allowed",
                        strlen(text), KVR_PROMPT_MAX);
    first_defaults(&r);
    for (;;) {
        int from = -1;

        if (p.n_acts == KVR_MAX_ACTS)
            return kvr_fail(
                KVR_EINVAL,
                "prompt: the text has more than the limit of %d acts (separated by ';' or '|')",
                KVR_MAX_ACTS);
        KVR_TRY(read_act(&r, &from));
        p.act[p.n_acts].from_chunk = from;
        memcpy(p.act[p.n_acts++].ids, r.ids, sizeof r.ids);
        if (*r.at == '\0')
            break;
        r.at++;
    }
    KVR_TRY(place_acts(&p, n_chunks));
    *out = p;
    return KVR_OK;
}

int kvr_prompt_act_at(const struct kvr_prompt *p, int chunk)
{
    int i = p->n_acts - 1;

    while (i > 0 && p->act[i].from_chunk > chunk)
        i--;
    return i;
}
