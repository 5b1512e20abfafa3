/* check.c - see check.h. */
#include "harness/workload/trace/check.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, MAX_POSITION = 1 << 24 };

/* Returns KVR_ENAN with a message that names the token, head and channel of the value x, which is
 * not finite. */
static enum kvr_status bad_value(const struct kvr_trace_call *c, const char *name,
                                 const struct kvr_tensor *t, int64_t at, double x)
{
    const int64_t d = t->shape[2], h = t->shape[1];

    return kvr_fail(
        KVR_ENAN,
        "%s: tensor '%s': token %lld, head %lld, channel %lld is %g; values must be finite",
        kvr_st_path(c->file), name, (long long)(at / (h * d)), (long long)(at / d % h),
        (long long)(at % d), x);
}

static enum kvr_status check_values(const struct kvr_trace_call *c, const char *name,
                                    const struct kvr_tensor *t, struct kvr_trace_report *r,
                                    double *most)
{
    const int64_t n = kvr_tensor_count(t);
    const size_t size = kvr_dtype_size(t->dtype);
    float x[PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;

        kvr_to_f32(x, (const char *)t->data + (size_t)at * size, t->dtype, (size_t)m);
        for (int64_t i = 0; i < m; i++) {
            if (!isfinite(x[i]))
                return bad_value(c, name, t, at + i, (double)x[i]);
            if (most && fabs((double)x[i]) > *most)
                *most = fabs((double)x[i]);
        }
    }
    r->values += n;
    r->bytes += (int64_t)kvr_tensor_bytes(t);
    return KVR_OK;
}

static const char axis[] = "thw"; /* coordinates of a position: frame, row, column */

static enum kvr_status check_positions(const struct kvr_trace_call *c)
{
    const int32_t *p = c->position.data;

    for (int64_t i = 0; i < 3 * c->n_tok; i++)
        if (p[i] < 0 || p[i] > MAX_POSITION)
            return kvr_fail(
                KVR_EFORMAT, "%s: tensor 'position': coordinate %c of token %lld is %d, need 0..%d",
                kvr_st_path(c->file), axis[i % 3], (long long)(i / 3), p[i], MAX_POSITION);
    return KVR_OK;
}

enum kvr_status kvr_trace_call_check(const struct kvr_trace_call *c, struct kvr_trace_report *r)
{
    KVR_TRY(check_positions(c));
    KVR_TRY(check_values(c, "k", &c->k, r, &r->most[1]));
    KVR_TRY(check_values(c, "v", &c->v, r, &r->most[2]));
    if (c->q.data)
        KVR_TRY(check_values(c, "q", &c->q, r, &r->most[0]));
    if (c->out.data)
        KVR_TRY(check_values(c, "out", &c->out, r, NULL));
    r->outputs += c->out.data != NULL;
    r->files++;
    return KVR_OK;
}

/* --- the folder ------------------------------------------------------------------------- */

/* RoPE positions of the current chunk's tokens, from the chunk's first attention call. */
struct seen {
    int chunk;
    int32_t *position; /* [T,3] */
};

static enum kvr_status same_positions(struct seen *s, const struct kvr_trace_call *c, int chunk)
{
    const size_t bytes = kvr_tensor_bytes(&c->position);
    const int32_t *have;
    int64_t i = 0;

    if (s->chunk != chunk) {
        int32_t *larger = realloc(s->position, bytes);

        if (!larger)
            return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating positions",
                            kvr_st_path(c->file));
        s->position = larger;
        memcpy(s->position, c->position.data, bytes);
        s->chunk = chunk;
    }
    assert(s->position); /* set by the first call, when s->chunk is -1 */
    if (memcmp(s->position, c->position.data, bytes) == 0)
        return KVR_OK;
    have = c->position.data;
    while (have[i] == s->position[i])
        i++;
    return kvr_fail(
        KVR_EFORMAT,
        "%s: tensor 'position' differs from the one in the chunk's first pass and layer: "
        "coordinate %c of token %lld is %d, need %d",
        kvr_st_path(c->file), axis[i % 3], (long long)(i / 3), have[i], s->position[i]);
}

static enum kvr_status check_pass(const struct kvr_trace *t, int pass, struct seen *s,
                                  struct kvr_trace_report *r)
{
    const struct kvr_trace_info *i = kvr_trace_info(t);
    enum kvr_status st = KVR_OK;

    for (int l = 0; l < i->layout.n_layers && st == KVR_OK; l++) {
        struct kvr_trace_call c;

        KVR_TRY(kvr_trace_call_open(&c, t, pass, l));
        if (l == 0 && i->pass[pass].index == 0)
            r->tokens += c.n_tok;
        st = kvr_trace_call_check(&c, r);
        if (st == KVR_OK)
            st = same_positions(s, &c, i->pass[pass].chunk);
        kvr_trace_call_close(&c);
    }
    return st;
}

static bool is_listed_file(const struct kvr_trace_info *i, const char *name)
{
    char expected[KVR_TRACE_FILE_NAME];
    int chunk, index, layer;

    if (name[0] == '.' || strcmp(name, "index.json") == 0)
        return true;
    if (sscanf(name, "c%5d-p%2d-l%4d", &chunk, &index, &layer) != 3 || layer < 0 ||
        layer >= i->layout.n_layers)
        return false;
    for (int p = 0; p < i->n_passes; p++)
        if (i->pass[p].chunk == chunk && i->pass[p].index == index) {
            kvr_trace_file_name(&i->pass[p], layer, expected);
            return strcmp(name, expected) == 0;
        }
    return false;
}

/* Returns KVR_EFORMAT because the index does not list the file `name`. The message shows control
 * characters of the name as '?', because a terminal would interpret them. */
static enum kvr_status fail_unlisted(const char *dir, const char *name)
{
    char shown[100];

    snprintf(shown, sizeof shown, "%.99s", name);
    for (char *s = shown; *s; s++)
        *s = *s < ' ' || *s == 0x7f ? '?' : *s;
    return kvr_fail(KVR_EFORMAT,
                    "%s/%s: the index of the trace does not list this file; move it elsewhere", dir,
                    shown);
}

static enum kvr_status check_folder(const struct kvr_trace *t)
{
    DIR *d = opendir(kvr_trace_dir(t));
    enum kvr_status st = KVR_OK;
    struct dirent *e;

    if (!d)
        return kvr_fail(errno == ENOMEM ? KVR_ENOMEM : KVR_EIO, "%s: cannot read the folder: %s",
                        kvr_trace_dir(t), strerror(errno));
    while (st == KVR_OK && (e = readdir(d)) != NULL)
        if (!is_listed_file(kvr_trace_info(t), e->d_name))
            st = fail_unlisted(kvr_trace_dir(t), e->d_name);
    closedir(d);
    return st;
}

enum kvr_status kvr_trace_check(const struct kvr_trace *t, kvr_trace_progress_fn *progress,
                                void *ctx, struct kvr_trace_report *out)
{
    const int n = kvr_trace_info(t)->n_passes;
    struct seen s = { .chunk = -1 };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    st = check_folder(t);
    for (int p = 0; p < n && st == KVR_OK; p++) {
        st = check_pass(t, p, &s, out);
        if (st == KVR_OK && progress && progress(ctx, p + 1, n))
            st = kvr_fail(KVR_EINTERRUPTED, "%s: stopped by the user after pass %d of %d",
                          kvr_trace_dir(t), p + 1, n);
    }
    free(s.position);
    return st;
}
