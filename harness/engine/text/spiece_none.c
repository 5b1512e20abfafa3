/* spiece_none.c - replaces spiece.cc in builds without the sentencepiece library. */
#include "harness/engine/text/spiece.h"

#include <stddef.h>

enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path)
{
    *out = NULL;
    return kvr_fail(
        KVR_EUNSUPPORTED,
        "%s: this kvreel was built without libsentencepiece; run `make deps` and build again",
        path);
}

void kvr_spiece_close(struct kvr_spiece **s)
{
    (void)s;
}

/* Unreachable, because no tokenizer can be opened in this build. */
enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text, int **ids, int *n)
{
    (void)s;
    *ids = NULL;
    *n = 0;
    return kvr_fail(
        KVR_EUNSUPPORTED,
        "text '%.20s' cannot be tokenized: this kvreel was built without libsentencepiece", text);
}

bool kvr_spiece_is_byte(const struct kvr_spiece *s, int id)
{
    (void)s;
    return id < 0;
}

int kvr_spiece_count(const struct kvr_spiece *s)
{
    (void)s;
    return 0;
}

int kvr_spiece_unknown(const struct kvr_spiece *s)
{
    (void)s;
    return -1;
}

int kvr_spiece_end(const struct kvr_spiece *s)
{
    (void)s;
    return -1;
}
