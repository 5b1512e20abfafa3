/* spiece.cc - the only file that sees sentencepiece. */
#include "harness/engine/text/spiece.h"

#include <sentencepiece_processor.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>
#include <string>
#include <vector>

#include "harness/core/infile.h"

struct kvr_spiece {
    sentencepiece::SentencePieceProcessor processor;
};

extern "C" enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path)
{
    kvr_spiece *s;

    *out = NULL;
    KVR_TRY(kvr_infile_check(path));
    if (access(path, R_OK) != 0)
        return kvr_fail(KVR_ENOTFOUND, "%s: cannot be read", path);
    s = new (std::nothrow) kvr_spiece;
    if (!s)
        return kvr_fail(KVR_ENOMEM, "%s: no memory", path);
    const sentencepiece::util::Status status = s->processor.Load(path);
    if (!status.ok() || s->processor.GetPieceSize() < 1) {
        delete s;
        return kvr_fail(KVR_EFORMAT, "%s: no sentencepiece model (%.80s)", path, status.message());
    }
    *out = s;
    return KVR_OK;
}

extern "C" void kvr_spiece_close(struct kvr_spiece **s)
{
    if (!s || !*s)
        return;
    delete *s;
    *s = NULL;
}

extern "C" enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text,
                                             int **ids, int *n)
{
    std::vector<int> v;
    const sentencepiece::util::Status status = s->processor.Encode(text, &v);

    *ids = NULL;
    *n = 0;
    if (!status.ok())
        return kvr_fail(KVR_EFORMAT, "sentencepiece: %.120s", status.message());
    *ids = static_cast<int *>(malloc((v.size() + 1) * sizeof **ids));
    if (!*ids)
        return kvr_fail(KVR_ENOMEM, "sentencepiece: no memory for %zu pieces", v.size());
    if (!v.empty())
        memcpy(*ids, v.data(), v.size() * sizeof **ids);
    *n = static_cast<int>(v.size());
    return KVR_OK;
}

extern "C" bool kvr_spiece_is_byte(const struct kvr_spiece *s, int id)
{
    return s->processor.IsByte(id);
}

extern "C" int kvr_spiece_count(const struct kvr_spiece *s)
{
    return s->processor.GetPieceSize();
}

extern "C" int kvr_spiece_unknown(const struct kvr_spiece *s)
{
    return s->processor.unk_id();
}

extern "C" int kvr_spiece_end(const struct kvr_spiece *s)
{
    return s->processor.eos_id();
}
