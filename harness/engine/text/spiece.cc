/* spiece.cc - C functions around the C++ library sentencepiece. The functions convert the library's
 * exceptions, in practice std::bad_alloc, to status codes. */
#include "harness/engine/text/spiece.h"

#include <errno.h>
#include <sentencepiece_processor.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "harness/core/infile.h"

struct kvr_spiece {
    sentencepiece::SentencePieceProcessor processor;
};

/* Memory that is reserved before sentencepiece parses a model or encodes a text. At the first
 * failed allocation, the new_handler frees the reserve, and `new` retries the allocation, which
 * then succeeds. Without the reserve, `new` would throw inside protobuf. Stack unwinding would then
 * destroy message objects whose allocation has failed. The reserve is large enough for the rest of
 * the parse or encoding. Each thread has its own reserve. */
class reserve
{
  public:
    explicit reserve(size_t n_bytes) noexcept : before(std::set_new_handler(let_go))
    {
        held = malloc(n_bytes);
    }
    ~reserve()
    {
        std::set_new_handler(before);
        free(held);
        held = NULL;
    }
    bool is_there() const noexcept
    {
        return held;
    }

  private:
    static void let_go()
    {
        if (!held)
            throw std::bad_alloc();
        free(held);
        held = NULL;
    }
    static thread_local void *held;
    std::new_handler before;
};
thread_local void *reserve::held = NULL;

/* A parsed model needs 13 to 15 times the size of its file in memory, as measured with model files
 * of 9 KB and 16 KB. The class `reserve` above therefore gets TIMES the bytes of the file or text,
 * plus LEAST bytes. */
enum { TIMES = 32, LEAST = 1 << 20 };

/* Returns the status code for the exception that is being handled. The library darts, which
 * sentencepiece uses, reports a failed allocation only in the message of its exception. */
static enum kvr_status failed(const char *what) noexcept
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating its pieces", what);
    } catch (const std::exception &e) {
        if (strstr(e.what(), "bad_alloc"))
            return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating pieces: %.120s", what,
                            e.what());
        return kvr_fail(KVR_EINTERNAL, "%s: sentencepiece: %.120s", what, e.what());
    } catch (...) {
        return kvr_fail(KVR_EINTERNAL, "%s: sentencepiece: an unknown exception", what);
    }
}

static enum kvr_status load(kvr_spiece *s, const char *path, size_t n_bytes)
{
    const reserve headroom(TIMES * n_bytes + LEAST);

    if (!headroom.is_there())
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d times its %zu bytes",
                        path, (int)TIMES, n_bytes);
    const sentencepiece::util::Status status = s->processor.Load(path);

    /* If sentencepiece cannot open the model file, its status contains the text of strerror(errno)
     * but not errno. */
    if (!status.ok() && strstr(status.message(), strerror(ENOMEM)))
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while opening it", path);
    if (!status.ok() || s->processor.GetPieceSize() < 1)
        return kvr_fail(KVR_EFORMAT, "%s: no sentencepiece model (%.80s)", path, status.message());
    return KVR_OK;
}

extern "C" enum kvr_status kvr_spiece_open(struct kvr_spiece **out, const char *path)
{
    kvr_spiece *s = NULL;
    enum kvr_status st;
    struct stat sb;

    *out = NULL;
    KVR_TRY(kvr_infile_check(path));
    if (access(path, R_OK) != 0 || stat(path, &sb) != 0)
        return kvr_fail(KVR_ENOTFOUND, "%s: cannot be read", path);
    try {
        s = new kvr_spiece;
        st = load(s, path, (size_t)sb.st_size);
    } catch (...) {
        st = failed(path);
    }
    if (st == KVR_OK)
        *out = s;
    else
        delete s;
    return st;
}

extern "C" void kvr_spiece_close(struct kvr_spiece **s)
{
    if (!s || !*s)
        return;
    delete *s;
    *s = NULL;
}

static enum kvr_status encode(const struct kvr_spiece *s, const char *text, int **ids, int *n)
{
    const reserve headroom(TIMES * strlen(text) + LEAST);
    std::vector<int> v;

    if (!headroom.is_there())
        return kvr_fail(KVR_ENOMEM, "sentencepiece: out of memory while allocating a text");
    const sentencepiece::util::Status status = s->processor.Encode(text, &v);
    if (!status.ok())
        return kvr_fail(KVR_EFORMAT, "sentencepiece: %.120s", status.message());
    *ids = static_cast<int *>(malloc((v.size() + 1) * sizeof **ids));
    if (!*ids)
        return kvr_fail(KVR_ENOMEM, "sentencepiece: out of memory while allocating %zu pieces",
                        v.size());
    if (!v.empty())
        memcpy(*ids, v.data(), v.size() * sizeof **ids);
    *n = static_cast<int>(v.size());
    return KVR_OK;
}

extern "C" enum kvr_status kvr_spiece_encode(const struct kvr_spiece *s, const char *text,
                                             int **ids, int *n)
{
    *ids = NULL;
    *n = 0;
    try {
        return encode(s, text, ids, n);
    } catch (...) {
        return failed("sentencepiece");
    }
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
