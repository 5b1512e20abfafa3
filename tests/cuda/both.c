/* both.c - see both.h. */
#include "tests/cuda/both.h"

enum { MAX_LIVE = 512 };

struct kvr_stream *both_stream;
struct kvr_dev *both_dev;
/* Live allocations. `n` does not include the guard bytes of an output buffer. */
static struct {
    unsigned char *p;
    size_t n;
} live[MAX_LIVE];
static int n_live;

static size_t guard_bytes(void)
{
    /* With 256 guard bytes, the buffer is aligned like the allocation. */
    return kvr_stream_emulated() ? 0 : 256;
}

static void put(void *device, const void *host, size_t n)
{
    ck_assert_msg(kvr_device_put(both_stream, device, host, n) == KVR_OK, "%s", kvr_error());
}

/* Allocates n bytes between two guards of g bytes. */
static void *alloc(size_t n, size_t g)
{
    void *p;

    ck_assert_int_lt(n_live, MAX_LIVE);
    ck_assert_msg(kvr_device_alloc(both_stream, &p, n + 2 * g) == KVR_OK, "%s", kvr_error());
    live[n_live].p = p;
    live[n_live++].n = n;
    return p;
}

void *both_in(const void *host, size_t n)
{
    void *p = alloc(n, 0);

    put(p, host, n);
    return p;
}

void *both_out(size_t n)
{
    const size_t g = guard_bytes();
    unsigned char *p = alloc(n, g), guard[256];

    memset(guard, 0xa5, sizeof guard);
    put(p, guard, g);
    put(p + g + n, guard, g);
    return p + g;
}

void *both_inout(const void *host, size_t n)
{
    void *p = both_out(n);

    put(p, host, n);
    return p;
}

/* Checks the guard bytes around the whole buffer, even if n is less than the buffer's size. */
void both_get(void *host, const void *out, size_t n, const char *what)
{
    const size_t g = guard_bytes();
    const unsigned char *p = out;
    unsigned char guard[2 * 256];
    int at = n_live;

    ck_assert_msg(kvr_stream_sync(both_stream) == KVR_OK, "%s: %s", what, kvr_error());
    ck_assert_msg(kvr_device_get(both_stream, host, out, n) == KVR_OK, "%s: %s", what, kvr_error());
    while (at > 0 && live[at - 1].p + g != p)
        at--;
    ck_assert_msg(at > 0, "%s: not from both_out or both_inout", what);
    ck_assert_msg(n <= live[at - 1].n, "%s: %zu bytes of %zu", what, n, live[at - 1].n);
    if (!g)
        return;
    ck_assert_int_eq(kvr_device_get(both_stream, guard, p - g, g), KVR_OK);
    ck_assert_int_eq(kvr_device_get(both_stream, guard + g, p + live[at - 1].n, g), KVR_OK);
    for (size_t i = 0; i < 2 * g; i++)
        if (guard[i] != 0xa5)
            ck_abort_msg("%s: guard byte %zu was written", what, i);
}

void both_free(void)
{
    while (n_live)
        kvr_device_free(both_stream, live[--n_live].p);
}
