/* json.c - typed access to parsed JSON. */
#include "harness/core/json.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/infile.h"
#include "harness/core/utf8.h"

/* The JSON library (Jansson) misses some failed allocations: its lexer continues after them. If
 * malloc() fails, requests of up to RESERVE_BYTES are therefore served from this reserve, which is
 * never freed. n_losses counts all failures, so that parse() refuses the document. */
enum { RESERVE_BYTES = 256 * 1024, RESERVE_ALIGN = 16 };
static _Alignas(RESERVE_ALIGN) unsigned char reserve[RESERVE_BYTES];
static atomic_size_t reserve_used;
static atomic_ulong n_losses;
/* Jansson's allocation functions before install_allocator() replaces them. take() and give_back()
 * call them. */
static json_malloc_t their_malloc = malloc;
static json_free_t their_free = free;

static void *take(size_t n)
{
    void *p = their_malloc(n);
    size_t at;

    if (p)
        return p;
    atomic_fetch_add(&n_losses, 1);
    if (n > RESERVE_BYTES)
        return NULL;
    n = (n + RESERVE_ALIGN - 1) & ~(size_t)(RESERVE_ALIGN - 1);
    at = atomic_fetch_add(&reserve_used, n);
    return at + n <= RESERVE_BYTES ? reserve + at : NULL;
}

static void give_back(void *p)
{
    if ((uintptr_t)p - (uintptr_t)reserve >= RESERVE_BYTES)
        their_free(p);
}

/* Replaces the allocation functions of Jansson before main(), so that take() allocates every
 * document. */
__attribute__((constructor)) static void install_allocator(void)
{
    json_get_alloc_funcs(&their_malloc, &their_free);
    json_set_alloc_funcs(take, give_back);
}

unsigned long kvr_json_losses(void)
{
    return atomic_load(&n_losses);
}

char *kvr_json_text(const json_t *j, size_t flags)
{
    char *text = j ? json_dumps(j, flags) : NULL;

    if (!kvr_json_losses())
        return text;
    give_back(text);
    return NULL;
}

json_t *kvr_json_words(const char *text)
{
    static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */
    char *copy, *to;
    json_t *j;

    if (kvr_utf8_is(text))
        return json_string(text);
    copy = to = take((sizeof unknown - 1) * strlen(text) + 1);
    if (!copy)
        return NULL;
    while (*text) {
        const int n = kvr_utf8_length(text);

        to = mempcpy(to, n ? text : unknown, n ? (size_t)n : sizeof unknown - 1);
        text += n ? n : 1;
    }
    *to = 0;
    j = json_string(copy);
    give_back(copy);
    return j;
}

/* JSON has no NaN and no infinities. Before parsing, these tokens are replaced by strings of the
 * same length, so that the columns in error messages match the file. The strings begin with DEL
 * (0x7f). check_string() refuses equal strings in a document. */
static const struct word {
    const char *token, *stands_for;
} words[] = {
    { "-Infinity", "\"\x7f-infin\"" },
    { "Infinity", "\"\x7finfin\"" },
    { "NaN", "\"\x7f\"" },
};
enum { N_WORDS = sizeof words / sizeof *words };

const char *kvr_json_not_finite(const json_t *v)
{
    const char *text = json_string_value(v);

    for (int i = 0; text && i < N_WORDS; i++) {
        const size_t n = strlen(words[i].token) - 2;

        if (strlen(text) == n && memcmp(words[i].stands_for + 1, text, n) == 0)
            return words[i].token;
    }
    return NULL;
}

/* Whether a colon follows text[at], after white space: the token before it is a key. */
static bool is_key(const char *text, size_t n, size_t at)
{
    while (at < n && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at < n && text[at] == ':';
}

/* Whether the JSON string of n bytes at `text`, without its quotes, has the value `value`. `value`
 * has no character that JSON abbreviates, such as \n. */
static bool string_is(const char *text, size_t n, const char *value, size_t n_value)
{
    const char *const end = text + n;

    for (size_t i = 0; i < n_value; i++) {
        char code[5] = "";

        if (end - text >= 6 && text[0] == '\\' && text[1] == 'u') {
            memcpy(code, text + 2, 4);
            if (strspn(code, "0123456789abcdefABCDEF") != 4 || strtol(code, NULL, 16) != value[i])
                return false;
            text += 6;
        } else if (text == end || *text++ != value[i]) {
            return false;
        }
    }
    return text == end;
}

/* Refuses a document in which the JSON string text[from..to) equals the string that stands for a
 * token: kvr_json_not_finite() could not distinguish them. */
static enum kvr_status check_string(const char *text, size_t from, size_t to, const char *where)
{
    int line = 1, column = 0;

    for (int w = 0; w < N_WORDS; w++) {
        const char *value = words[w].stands_for + 1;
        const size_t n = strlen(words[w].token) - 2;

        if (!string_is(text + from, to - from, value, n))
            continue;
        for (size_t i = 0; i < from; i++) {
            column = text[i] == '\n' ? 0 : column + 1;
            line += text[i] == '\n';
        }
        return kvr_fail(KVR_EFORMAT,
                        "%s:%d:%d: the string \"\\u007f%.*s\" is not allowed, since kvreel "
                        "represents %s by it; change the string",
                        where, line, column, (int)n - 1, value + 1, words[w].token);
    }
    return KVR_OK;
}

/* Replaces NaN, Infinity and -Infinity, in place, by the strings in `words`, except in JSON strings
 * and except keys, which the parser then refuses. */
static enum kvr_status replace_words(char *text, size_t n, const char *where)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            const size_t from = ++i;

            for (; i < n && text[i] != '"'; i++)
                i += text[i] == '\\';
            if (i < n && !is_key(text, n, i + 1))
                KVR_TRY(check_string(text, from, i, where));
            continue;
        }
        for (int w = 0; w < N_WORDS; w++) {
            const size_t m = strlen(words[w].token);

            if (n - i >= m && memcmp(text + i, words[w].token, m) == 0) {
                if (!is_key(text, n, i + m))
                    memcpy(text + i, words[w].stands_for, m);
                i += m - 1;
                break;
            }
        }
    }
    return KVR_OK;
}

/* Parses the JSON text `text` of n bytes, and modifies it. */
static enum kvr_status parse(json_t **out, char *text, size_t n, const char *where)
{
    const unsigned long losses = kvr_json_losses();
    json_error_t err;

    *out = NULL;
    KVR_TRY(replace_words(text, n, where));
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &err);
    if (kvr_json_losses() != losses) {
        json_decref(*out);
        *out = NULL;
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the JSON text", where);
    }
    if (!*out)
        return kvr_fail(KVR_EFORMAT, "%s:%d:%d: %s", where, err.line, err.column, err.text);
    return KVR_OK;
}

enum kvr_status kvr_json_parse(json_t **out, const char *text, size_t n, const char *where)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t skip =
        n >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
    char *copy = malloc(n - skip + 1);
    enum kvr_status st;

    *out = NULL;
    if (!copy)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the JSON text", where);
    memcpy(copy, text + skip, n - skip);
    st = parse(out, copy, n - skip, where);
    free(copy);
    return st;
}

/* Reads the whole file into *out, which the caller must free. */
static enum kvr_status read_all(char **out, size_t *n, FILE *file, const char *path)
{
    enum { FIRST = 1 << 16 };
    size_t capacity = 0;
    char *text = NULL;

    *n = 0;
    do {
        if (*n == capacity) {
            char *more = realloc(text, capacity = capacity ? 2 * capacity : FIRST);

            if (!more) {
                free(text);
                return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the JSON text",
                                path);
            }
            text = more;
        }
        errno = 0;
        *n += fread(text + *n, 1, capacity - *n, file);
    } while (!feof(file) && !ferror(file));
    *out = text;
    if (!ferror(file))
        return KVR_OK;
    free(text);
    return kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
}

enum kvr_status kvr_json_load(json_t **out, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(kvr_infile_open_text(&file, path));
    st = read_all(&text, &n, file, path);
    fclose(file);
    if (st != KVR_OK)
        return st;
    st = parse(out, text, n, path);
    free(text);
    return st;
}

enum { FOUND_BYTES = 80 };

static const char *type_name(const json_t *v)
{
    if (kvr_json_not_finite(v))
        return kvr_json_not_finite(v);
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

/* Writes to buf [n] the first bytes of a JSON string in quotes. Control characters become '?'. */
static void quoted(const char *text, char *buf, size_t n)
{
    size_t used = 1, m;

    buf[0] = '\'';
    for (; *text && used + 10 < n; text += m, used += m) {
        m = (size_t)kvr_utf8_length(text);
        m = m ? m : 1;
        memcpy(buf + used, text, m);
        if (m == 1 && iscntrl((unsigned char)*text))
            buf[used] = '?';
    }
    snprintf(buf + used, n - used, "%s'", *text ? "..." : "");
}

/* Writes to buf the type of a JSON value, and a scalar's value, as in "integer 7". */
static const char *found_text(const json_t *v, char buf[FOUND_BYTES])
{
    const char *type = type_name(v);
    char value[56] = "";

    if (json_is_integer(v))
        snprintf(value, sizeof value, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        snprintf(value, sizeof value, "%.6g", json_real_value(v));
    else if (json_is_boolean(v))
        snprintf(value, sizeof value, "%s", json_is_true(v) ? "true" : "false");
    else if (json_is_string(v) && !kvr_json_not_finite(v))
        quoted(json_string_value(v), value, sizeof value);
    snprintf(buf, FOUND_BYTES, "%s%s%s", type, value[0] ? " " : "", value);
    return buf;
}

enum presence { REQUIRED, OPTIONAL };

/* Sets *v to the value of `key`, or to NULL if the value is optional and absent. */
static enum kvr_status lookup(const json_t *o, const char *where, const char *key,
                              enum presence presence, const char *expected, json_t **v)
{
    char found[FOUND_BYTES];

    *v = NULL;
    if (!json_is_object(o))
        return kvr_fail(KVR_EFORMAT, "%s: expected object with key %s, found %s", where, key,
                        o ? found_text(o, found) : "nothing");
    *v = json_object_get(o, key);
    if (presence == OPTIONAL && json_is_null(*v))
        *v = NULL;
    if (!*v && presence == REQUIRED)
        return kvr_fail(KVR_EFORMAT, "%s: key %s is missing, need %s", where, key, expected);
    return KVR_OK;
}

static enum kvr_status mismatch(const char *where, const char *key, const char *expected,
                                const json_t *v)
{
    char found[FOUND_BYTES];

    return kvr_fail(KVR_EFORMAT, "%s: %s: expected %s, found %s", where, key, expected,
                    found_text(v, found));
}

static enum kvr_status get_int(const json_t *o, const char *where, const char *key,
                               enum presence presence, int64_t *out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, presence, "integer", &v));
    if (v && !json_is_integer(v))
        return mismatch(where, key, "integer", v);
    if (v)
        *out = json_integer_value(v);
    return KVR_OK;
}

static enum kvr_status get_real(const json_t *o, const char *where, const char *key,
                                enum presence presence, double *out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, presence, "number", &v));
    if (v && !json_is_number(v))
        return mismatch(where, key, "number", v);
    if (v)
        *out = json_number_value(v);
    return KVR_OK;
}

static enum kvr_status get_bool(const json_t *o, const char *where, const char *key,
                                enum presence presence, bool *out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, presence, "boolean", &v));
    if (v && !json_is_boolean(v))
        return mismatch(where, key, "boolean", v);
    if (v)
        *out = json_is_true(v);
    return KVR_OK;
}

static enum kvr_status get_string(const json_t *o, const char *where, const char *key,
                                  enum presence presence, const char **out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, presence, "string", &v));
    if (v && (!json_is_string(v) || kvr_json_not_finite(v)))
        return mismatch(where, key, "string", v);
    if (v)
        *out = json_string_value(v);
    return KVR_OK;
}

static enum kvr_status get_array(const json_t *o, const char *where, const char *key,
                                 enum presence presence, json_t **out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, presence, "array", &v));
    if (v && !json_is_array(v))
        return mismatch(where, key, "array", v);
    if (v)
        *out = v;
    return KVR_OK;
}

static enum kvr_status get_int_in(const json_t *o, const char *where, const char *key,
                                  enum presence presence, int64_t lo, int64_t hi, int *out)
{
    int64_t n = 0;
    json_t *v;

    assert(lo >= INT_MIN && hi <= INT_MAX);
    KVR_TRY(lookup(o, where, key, presence, "integer", &v));
    if (!v)
        return KVR_OK;
    KVR_TRY(get_int(o, where, key, presence, &n));
    if (n < lo || n > hi)
        return kvr_fail(KVR_EFORMAT,
                        "%s: %s: %" PRId64 " is out of bounds, need %" PRId64 "..%" PRId64, where,
                        key, n, lo, hi);
    *out = (int)n;
    return KVR_OK;
}

enum kvr_status kvr_json_int(const json_t *o, const char *where, const char *key, int64_t *out)
{
    return get_int(o, where, key, REQUIRED, out);
}

enum kvr_status kvr_json_real(const json_t *o, const char *where, const char *key, double *out)
{
    return get_real(o, where, key, REQUIRED, out);
}

enum kvr_status kvr_json_bool(const json_t *o, const char *where, const char *key, bool *out)
{
    return get_bool(o, where, key, REQUIRED, out);
}

enum kvr_status kvr_json_string(const json_t *o, const char *where, const char *key,
                                const char **out)
{
    return get_string(o, where, key, REQUIRED, out);
}

enum kvr_status kvr_json_array(const json_t *o, const char *where, const char *key, json_t **out)
{
    return get_array(o, where, key, REQUIRED, out);
}

enum kvr_status kvr_json_object(const json_t *o, const char *where, const char *key, json_t **out)
{
    json_t *v;

    KVR_TRY(lookup(o, where, key, REQUIRED, "object", &v));
    if (!json_is_object(v))
        return mismatch(where, key, "object", v);
    *out = v;
    return KVR_OK;
}

enum kvr_status kvr_json_int_opt(const json_t *o, const char *where, const char *key, int64_t *out)
{
    return get_int(o, where, key, OPTIONAL, out);
}

enum kvr_status kvr_json_real_opt(const json_t *o, const char *where, const char *key, double *out)
{
    return get_real(o, where, key, OPTIONAL, out);
}

enum kvr_status kvr_json_bool_opt(const json_t *o, const char *where, const char *key, bool *out)
{
    return get_bool(o, where, key, OPTIONAL, out);
}

enum kvr_status kvr_json_string_opt(const json_t *o, const char *where, const char *key,
                                    const char **out)
{
    return get_string(o, where, key, OPTIONAL, out);
}

enum kvr_status kvr_json_array_opt(const json_t *o, const char *where, const char *key,
                                   json_t **out)
{
    return get_array(o, where, key, OPTIONAL, out);
}

enum kvr_status kvr_json_int_in(const json_t *o, const char *where, const char *key, int64_t lo,
                                int64_t hi, int *out)
{
    return get_int_in(o, where, key, REQUIRED, lo, hi, out);
}

enum kvr_status kvr_json_int_in_opt(const json_t *o, const char *where, const char *key, int64_t lo,
                                    int64_t hi, int *out)
{
    return get_int_in(o, where, key, OPTIONAL, lo, hi, out);
}
