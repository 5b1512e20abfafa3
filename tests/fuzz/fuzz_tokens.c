/* fuzz_tokens.c - any text is cleaned as a prompt (HTML entities, Unicode, blanks), or refused with
 * a message. The cleaned text is UTF-8, and the text's tokens belong to the vocabulary. Run from
 * the repository's root. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/core/utf8.h"
#include "harness/engine/text/clean.h"
#include "harness/engine/text/tokens.h"
#include "tests/fuzz/fuzz_text.h"

enum { MOST = 64 };

static void tokenize(const char *text)
{
    static struct kvr_tokenizer *t;
    static bool none;
    int ids[MOST], n = 0;

    if (!t && !none)
        none = kvr_tokenizer_open(&t, "tests/fixtures/wan_real/spiece.model") != KVR_OK;
    if (none || kvr_tokenize(t, text, MOST, ids, &n) != KVR_OK)
        return;
    assert(n >= 1 && n <= MOST);
    for (int i = 0; i < n; i++)
        assert(ids[i] >= 0 && ids[i] < kvr_tokenizer_count(t));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n), *clean = NULL;

    if (kvr_text_clean(text, &clean) == KVR_OK) {
        assert(kvr_utf8_is(clean));
        tokenize(text);
    } else {
        assert(!clean && kvr_error()[0]);
    }
    free(clean);
    free(text);
    return 0;
}
