/* regex.c - compiles a regular expression to a list of steps (a nondeterministic automaton). For
 * each byte of the text, all reachable steps are simulated in parallel. */
#include "harness/core/regex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum opcode { BYTE_IN, SPLIT, JUMP, BEGIN, END, DONE };

struct step {
    enum opcode op;
    int to, other;         /* next steps: SPLIT continues at both, JUMP at `to` */
    unsigned char set[32]; /* bytes that BYTE_IN matches, one bit per value */
};

struct kvr_regex {
    int n;
    struct step *step; /* [n] */
    int *now, *next;   /* steps reached before and after a byte, [n] each */
    int *seen, *stack; /* of follow(): `mark` of each step's last visit; steps to visit */
};

struct parse {
    struct kvr_regex *r;
    const char *all, *at;
    int capacity, depth;
};

static enum kvr_status fail_syntax(const struct parse *p, const char *what)
{
    return kvr_fail(KVR_EINVAL, "regular expression '%s', byte %d (counted from 0): %s", p->all,
                    (int)(p->at - p->all), what);
}

/* --- compiling -------------------------------------------------------------------------- */

/* Inserts step s at index `at`. Later steps, and jumps to them, move by one. */
static enum kvr_status insert(struct parse *p, int at, struct step s)
{
    struct kvr_regex *r = p->r;

    if (r->n == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 32;
        struct step *bigger = realloc(r->step, (size_t)capacity * sizeof *bigger);

        if (!bigger)
            return kvr_fail(KVR_ENOMEM, "regular expression: out of memory");
        r->step = bigger;
        p->capacity = capacity;
    }
    for (int i = at; i < r->n; i++) {
        r->step[i].to += r->step[i].to >= at;
        r->step[i].other += r->step[i].other >= at;
    }
    memmove(r->step + at + 1, r->step + at, (size_t)(r->n - at) * sizeof *r->step);
    r->step[at] = s;
    r->n++;
    return KVR_OK;
}

static enum kvr_status append(struct parse *p, struct step s)
{
    return insert(p, p->r->n, s);
}

static void take(struct step *s, int byte)
{
    s->set[byte >> 3] |= (unsigned char)(1 << (byte & 7));
}

/* Parses a character class such as "[:digit:]" inside a bracket expression. */
static enum kvr_status named_class(struct parse *p, struct step *s)
{
    static const struct {
        const char *name;
        int (*is)(int);
    } classes[] = { { "[:alpha:]", isalpha }, { "[:digit:]", isdigit },  { "[:alnum:]", isalnum },
                    { "[:upper:]", isupper }, { "[:lower:]", islower },  { "[:space:]", isspace },
                    { "[:punct:]", ispunct }, { "[:xdigit:]", isxdigit } };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t n = strlen(classes[i].name);

        if (strncmp(p->at, classes[i].name, n) != 0)
            continue;
        for (int b = 1; b < 128; b++)
            if (classes[i].is(b))
                take(s, b);
        p->at += n;
        return KVR_OK;
    }
    return fail_syntax(p, "unknown character class, need [:alpha:], [:digit:], [:alnum:], "
                          "[:upper:], [:lower:], [:space:], [:punct:] or [:xdigit:]");
}

static enum kvr_status brackets(struct parse *p)
{
    struct step s = { .op = BYTE_IN };
    const bool others = *p->at == '^';

    p->at += others;
    for (bool first = true; first || *p->at != ']'; first = false) {
        const unsigned char from = (unsigned char)*p->at;
        unsigned char to = from;

        if (!from)
            return fail_syntax(p, "'[' without a closing ']'");
        if (from == '[' && p->at[1] == ':') {
            KVR_TRY(named_class(p, &s));
            continue;
        }
        p->at++;
        if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
            to = (unsigned char)p->at[1];
            p->at += 2;
        }
        if (to < from)
            return fail_syntax(p, "a range in brackets ends before it starts, as in [z-a]");
        for (int b = from; b <= to; b++)
            take(&s, b);
    }
    p->at++;
    for (int i = 0; others && i < 32; i++)
        s.set[i] = (unsigned char)~s.set[i];
    return append(p, s);
}

static enum kvr_status alternatives(struct parse *p);

static enum kvr_status parentheses(struct parse *p)
{
    if (++p->depth > KVR_REGEX_DEPTH)
        return kvr_fail(KVR_EINVAL,
                        "regular expression '%.80s': more than the limit of %d nested parentheses",
                        p->all, KVR_REGEX_DEPTH);
    KVR_TRY(alternatives(p));
    if (*p->at != ')')
        return fail_syntax(p, "'(' without a closing ')'");
    p->at++;
    p->depth--;
    return KVR_OK;
}

static enum kvr_status atom(struct parse *p)
{
    struct step s = { .op = BYTE_IN };
    const char c = *p->at++;

    switch (c) {
    case '(':
        return parentheses(p);
    case '[':
        return brackets(p);
    case '^':
        s.op = BEGIN;
        return append(p, s);
    case '$':
        s.op = END;
        return append(p, s);
    case '.':
        memset(s.set, 0xff, sizeof s.set);
        return append(p, s);
    case '*':
    case '+':
    case '?':
        p->at--;
        return fail_syntax(p, "no expression to repeat before '*', '+' or '?'");
    case '{':
        p->at--;
        return fail_syntax(p, "counts in braces are not supported; write \\{ for a literal brace");
    case '\\':
        if (!*p->at || isalnum((unsigned char)*p->at))
            return fail_syntax(p, "\\ must be followed by a special character such as . or *, not "
                                  "by a letter, a digit or the end");
        take(&s, (unsigned char)*p->at++);
        return append(p, s);
    default:
        take(&s, (unsigned char)c);
        return append(p, s);
    }
}

static enum kvr_status repeat(struct parse *p, int begin)
{
    const char c = *p->at++;
    const int end = p->r->n;

    if (c == '+') /* repeat, or continue */
        return append(p, (struct step){ .op = SPLIT, .to = begin, .other = end + 1 });
    KVR_TRY(insert(p, begin, (struct step){ .op = SPLIT, .to = begin + 1 }));
    if (c == '*')
        KVR_TRY(append(p, (struct step){ .op = JUMP, .to = begin }));
    p->r->step[begin].other = p->r->n;
    return KVR_OK;
}

static enum kvr_status sequence(struct parse *p)
{
    while (*p->at && *p->at != '|' && *p->at != ')') {
        const int begin = p->r->n;

        KVR_TRY(atom(p));
        while (*p->at && strchr("*+?", *p->at))
            KVR_TRY(repeat(p, begin));
    }
    return KVR_OK;
}

/* Compiles alternatives "a|b|c". A SPLIT precedes each alternative except the last, and a JUMP past
 * the remaining alternatives follows it. Until the last alternative is compiled, `other` of each
 * JUMP is the index of the previous JUMP. */
static enum kvr_status alternatives(struct parse *p)
{
    int jump = -1, begin = p->r->n;

    KVR_TRY(sequence(p));
    while (*p->at == '|') {
        p->at++;
        KVR_TRY(insert(p, begin, (struct step){ .op = SPLIT, .to = begin + 1 }));
        KVR_TRY(append(p, (struct step){ .op = JUMP, .other = jump }));
        jump = p->r->n - 1;
        p->r->step[begin].other = p->r->n;
        begin = p->r->n;
        KVR_TRY(sequence(p));
    }
    while (jump >= 0) {
        struct step *const s = &p->r->step[jump];

        jump = s->other;
        s->to = p->r->n;
    }
    return KVR_OK;
}

enum kvr_status kvr_regex_open(struct kvr_regex **out, const char *text)
{
    struct kvr_regex *r = calloc(1, sizeof *r);
    struct parse p = { r, text, text, 0, 0 };
    enum kvr_status st;

    *out = NULL;
    if (!r)
        return kvr_fail(KVR_ENOMEM, "regular expression: out of memory");
    if (strlen(text) > KVR_REGEX_MAX)
        st =
            kvr_fail(KVR_EINVAL, "regular expression '%.40s...': %zu bytes, at most %d are allowed",
                     text, strlen(text), KVR_REGEX_MAX);
    else
        st = alternatives(&p);
    if (st == KVR_OK && *p.at)
        st = fail_syntax(&p, "')' without an opening '('");
    if (st == KVR_OK)
        st = append(&p, (struct step){ .op = DONE });
    if (st == KVR_OK) {
        r->now = calloc(5 * (size_t)r->n + 1, sizeof *r->now);
        if (!r->now)
            st = kvr_fail(KVR_ENOMEM, "regular expression: out of memory");
    }
    if (st != KVR_OK) {
        kvr_regex_close(&r);
        return st;
    }
    r->next = r->now + r->n;
    r->seen = r->next + r->n;
    r->stack = r->seen + r->n; /* [2 n]: each step is followed once and pushes at most two steps */
    *out = r;
    return KVR_OK;
}

void kvr_regex_close(struct kvr_regex **r)
{
    if (!*r)
        return;
    free((*r)->step);
    free((*r)->now);
    free(*r);
    *r = NULL;
}

/* --- matching --------------------------------------------------------------------------- */

/* Adds to `list` all BYTE_IN steps that can be reached from step `first` without reading a byte.
 * Returns true if DONE can be reached, which is a match. `mark` differs for every list. A step is
 * skipped if seen[step] is `mark`, because the list already has its successors. */
static bool follow(struct kvr_regex *r, int first, int *list, int *n, int mark, bool begin,
                   bool end)
{
    int k = 0;

    r->stack[k++] = first;
    while (k > 0) {
        const int i = r->stack[--k];
        const struct step *s = &r->step[i];

        if (r->seen[i] == mark)
            continue;
        r->seen[i] = mark;
        if (s->op == DONE)
            return true;
        if (s->op == BYTE_IN)
            list[(*n)++] = i;
        else if (s->op == JUMP)
            r->stack[k++] = s->to;
        else if (s->op == SPLIT) {
            r->stack[k++] = s->other;
            r->stack[k++] = s->to;
        } else if (s->op == BEGIN ? begin : end) {
            r->stack[k++] = i + 1;
        }
    }
    return false;
}

bool kvr_regex_matches(struct kvr_regex *r, const char *text)
{
    int *now = r->now, *next = r->next, n = 0;

    memset(r->seen, 0, (size_t)r->n * sizeof *r->seen);
    if (follow(r, 0, now, &n, 1, true, !text[0]))
        return true;
    for (int i = 0; text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool last = !text[i + 1];
        int *swap = now, m = 0;

        for (int k = 0; k < n; k++)
            if (r->step[now[k]].set[c >> 3] >> (c & 7) & 1 &&
                follow(r, now[k] + 1, next, &m, i + 2, false, last))
                return true;
        if (follow(r, 0, next, &m, i + 2, false, last)) /* a match may also begin here */
            return true;
        now = next;
        next = swap;
        n = m;
    }
    return false;
}
