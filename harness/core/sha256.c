/* sha256.c - SHA-256 through libcrypto's low-level functions. OpenSSL 3.0 recommends its providers
 * instead, which allocate memory and crash if an allocation fails. The low-level functions do not
 * allocate. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "harness/core/sha256.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/infile.h"

enum { READ_BYTES = 64 * 1024 };

static_assert(sizeof(SHA256_CTX) <= sizeof(struct kvr_sha256),
              "struct kvr_sha256 is too small for a SHA256_CTX");

enum kvr_status kvr_sha256_open(struct kvr_sha256 *h)
{
    if (SHA256_Init((SHA256_CTX *)h->state) != 1)
        return kvr_fail(KVR_EUNSUPPORTED, "sha256: libcrypto does not provide SHA-256");
    return KVR_OK;
}

enum kvr_status kvr_sha256_add(struct kvr_sha256 *h, const void *p, size_t n)
{
    if (n > 0 && SHA256_Update((SHA256_CTX *)h->state, p, n) != 1)
        return kvr_fail(KVR_EINTERNAL, "sha256: libcrypto failed to hash %zu bytes", n);
    return KVR_OK;
}

enum kvr_status kvr_sha256_close(struct kvr_sha256 *h, char hex[KVR_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char md[SHA256_DIGEST_LENGTH];

    if (!hex)
        return KVR_OK;
    if (SHA256_Final(md, (SHA256_CTX *)h->state) != 1)
        return kvr_fail(KVR_EINTERNAL, "sha256: libcrypto returned no digest");
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        hex[2 * i] = digits[md[i] >> 4];
        hex[2 * i + 1] = digits[md[i] & 15];
    }
    hex[2 * SHA256_DIGEST_LENGTH] = '\0';
    return KVR_OK;
}

enum kvr_status kvr_sha256_hex(const void *p, size_t n, char hex[KVR_SHA256_HEX])
{
    struct kvr_sha256 h;
    enum kvr_status st;

    KVR_TRY(kvr_sha256_open(&h));
    st = kvr_sha256_add(&h, p, n);
    if (st != KVR_OK) {
        kvr_sha256_close(&h, NULL);
        return st;
    }
    return kvr_sha256_close(&h, hex);
}

static enum kvr_status add_file(struct kvr_sha256 *h, int fd, const char *path)
{
    unsigned char buf[READ_BYTES];

    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);

        if (n == 0)
            return KVR_OK;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
        KVR_TRY(kvr_sha256_add(h, buf, (size_t)n));
    }
}

enum kvr_status kvr_sha256_file(const char *path, char hex[KVR_SHA256_HEX])
{
    struct kvr_sha256 h = { 0 };
    enum kvr_status st;
    int fd;

    KVR_TRY(kvr_infile_check(path));
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kvr_fail(errno == ENOENT ? KVR_ENOTFOUND : KVR_EIO, "%s: %s", path, strerror(errno));
    st = kvr_sha256_open(&h);
    if (st == KVR_OK)
        st = add_file(&h, fd, path);
    close(fd);
    if (st != KVR_OK) {
        kvr_sha256_close(&h, NULL);
        return st;
    }
    return kvr_sha256_close(&h, hex);
}
