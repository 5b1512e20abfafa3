/* zip.c - reads the end record, central directory and local headers of a zip archive, and checks
 * that they agree. */
#include "harness/files/weights/zip.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/files/weights/bytes.h"
#include "harness/files/weights/text.h"

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_RECORDS = 1 << 20,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1 << 0,
    FLAG_STRONG = 1 << 6,
    FLAG_MASKED = 1 << 13,
};

struct end {
    uint64_t n_records, dir_bytes, dir_begin;
    uint64_t dir_end; /* offset of the ZIP64 end record, or of the end record without ZIP64 */
};

static bool signature(const unsigned char *p, char a, char b)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

static enum kvr_status refuse(const char *where, const char *why)
{
    return kvr_fail(KVR_EFORMAT, "%s: zip: %s", where, why);
}

/* Checks a field of the end record against `value` from the ZIP64 end record. The field must equal
 * `value`, or be `beyond`, the placeholder for values that only the ZIP64 record has. */
static bool agrees(uint64_t short_field, uint64_t beyond, uint64_t value)
{
    return short_field == beyond || short_field == value;
}

static enum kvr_status read_end64(struct end *e, const char *where, const unsigned char *bytes,
                                  const unsigned char *locator)
{
    uint64_t at = kvr_little_endian(locator + 8, 8), locator_at = (uint64_t)(locator - bytes);
    const unsigned char *p;

    if (kvr_little_endian(locator + 4, 4) != 0 || kvr_little_endian(locator + 16, 4) > 1)
        return refuse(where, "more than one disk");
    if (at > locator_at || locator_at - at < END64_BYTES || !signature(bytes + at, 6, 6))
        return refuse(where, "no ZIP64 end record where its locator points");
    p = bytes + at;
    if (kvr_little_endian(p + 4, 8) != locator_at - at - 12)
        return refuse(where, "the ZIP64 end record's size is wrong");
    if (kvr_little_endian(p + 16, 4) != 0 || kvr_little_endian(p + 20, 4) != 0 ||
        kvr_little_endian(p + 24, 8) != kvr_little_endian(p + 32, 8))
        return refuse(where, "more than one disk");
    if (!agrees(e->n_records, 0xffff, kvr_little_endian(p + 32, 8)) ||
        !agrees(e->dir_bytes, 0xffffffff, kvr_little_endian(p + 40, 8)) ||
        !agrees(e->dir_begin, 0xffffffff, kvr_little_endian(p + 48, 8)))
        return refuse(where,
                      "the ZIP64 end record and the end record of the central directory differ");
    *e = (struct end){ kvr_little_endian(p + 32, 8), kvr_little_endian(p + 40, 8),
                       kvr_little_endian(p + 48, 8), at };
    return KVR_OK;
}

static enum kvr_status read_end(struct end *e, const char *where, const unsigned char *bytes,
                                size_t n)
{
    const unsigned char *p;

    *e = (struct end){ 0 };
    if (n < END_BYTES || !signature(bytes + n - END_BYTES, 5, 6))
        return refuse(where,
                      "no end record in the last 22 bytes: the file is truncated or has a comment");
    p = bytes + n - END_BYTES;
    if (kvr_little_endian(p + 20, 2) != 0)
        return refuse(where,
                      "the end record has a comment length above 0, but no comment follows it");
    if (kvr_little_endian(p + 4, 2) != 0 || kvr_little_endian(p + 6, 2) != 0 ||
        kvr_little_endian(p + 8, 2) != kvr_little_endian(p + 10, 2))
        return refuse(where, "more than one disk");
    *e = (struct end){ kvr_little_endian(p + 10, 2), kvr_little_endian(p + 12, 4),
                       kvr_little_endian(p + 16, 4), n - END_BYTES };
    if (n >= END_BYTES + LOCATOR_BYTES && signature(p - LOCATOR_BYTES, 6, 7))
        KVR_TRY(read_end64(e, where, bytes, p - LOCATOR_BYTES));
    if (e->dir_begin > e->dir_end || e->dir_bytes != e->dir_end - e->dir_begin)
        return kvr_fail(KVR_EFORMAT,
                        "%s: zip: the central directory has %" PRIu64
                        " bytes and begins at byte %" PRIu64
                        ", but must end where its end record begins, at byte %" PRIu64,
                        where, e->dir_bytes, e->dir_begin, e->dir_end);
    if (e->n_records > MAX_RECORDS || e->n_records > e->dir_bytes / ENTRY_BYTES)
        return kvr_fail(KVR_EFORMAT,
                        "%s: zip: %" PRIu64 " records do not fit in a central directory of %" PRIu64
                        " bytes (at most %d are read)",
                        where, e->n_records, e->dir_bytes, MAX_RECORDS);
    return KVR_OK;
}

/* Replaces each of three fields that is 0xffffffff by its value from the ZIP64 extra field. The
 * values there are in the order of `field`. */
static bool read_extra64(const unsigned char *p, size_t n, uint64_t *field[3])
{
    while (n >= 4) {
        size_t len = kvr_little_endian(p + 2, 2);

        if (len > n - 4)
            return false;
        if (kvr_little_endian(p, 2) == EXTRA_ZIP64) {
            p += 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != 0xffffffff)
                    continue;
                if (len < 8)
                    return false;
                *field[i] = kvr_little_endian(p, 8);
                p += 8;
                len -= 8;
            }
            return true;
        }
        p += 4 + len;
        n -= 4 + len;
    }
    return n == 0;
}

static enum kvr_status refuse_record(const char *where, const struct kvr_zipfile_record *r,
                                     const char *why)
{
    char shown[KVR_PRINTABLE];

    return kvr_fail(KVR_EFORMAT, "%s: zip: record '%s': %s", where,
                    kvr_printable(shown, r->name, r->n_name), why);
}

static enum kvr_status read_local(struct kvr_zipfile_record *r, const char *where,
                                  const unsigned char *bytes, uint64_t dir_begin, uint64_t n_data)
{
    const unsigned char *p;
    uint64_t head;

    if (r->begin > dir_begin || dir_begin - r->begin < LOCAL_BYTES ||
        !signature(bytes + r->begin, 3, 4))
        return refuse_record(where, r, "no local header where the directory points");
    p = bytes + r->begin;
    head = LOCAL_BYTES + kvr_little_endian(p + 26, 2) + kvr_little_endian(p + 28, 2);
    if (head > dir_begin - r->begin || n_data > dir_begin - r->begin - head)
        return refuse_record(where, r,
                             "its data extends beyond the start of the central directory");
    if (kvr_little_endian(p + 26, 2) != r->n_name ||
        memcmp(p + LOCAL_BYTES, r->name, r->n_name) != 0)
        return refuse_record(where, r,
                             "its names in the local header and the central directory differ");
    if (kvr_little_endian(p + 8, 2) != 0 ||
        (kvr_little_endian(p + 6, 2) & (FLAG_ENCRYPTED | FLAG_STRONG)))
        return refuse_record(
            where, r,
            "compressed or encrypted according to its local header; neither is supported");
    r->data = p + head;
    r->n = n_data;
    return KVR_OK;
}

/* Reads the directory entry at p, which is `left` bytes before the directory's end. *used: length
 * of the entry in bytes. */
static enum kvr_status read_entry(struct kvr_zipfile_record *r, const char *where,
                                  const unsigned char *bytes, const unsigned char *p, uint64_t left,
                                  uint64_t dir_begin, uint64_t *used)
{
    uint64_t flags, method, n_extra, packed = 0, size = 0;
    uint64_t *fields[3] = { &size, &packed, &r->begin };

    *used = 0;
    if (left < ENTRY_BYTES || !signature(p, 1, 2))
        return refuse(
            where,
            "a directory entry is truncated or does not begin with the signature of an entry");
    flags = kvr_little_endian(p + 8, 2);
    method = kvr_little_endian(p + 10, 2);
    packed = kvr_little_endian(p + 20, 4);
    size = kvr_little_endian(p + 24, 4);
    r->n_name = kvr_little_endian(p + 28, 2);
    n_extra = kvr_little_endian(p + 30, 2);
    r->begin = kvr_little_endian(p + 42, 4);
    *used = ENTRY_BYTES + r->n_name + n_extra + kvr_little_endian(p + 32, 2);
    r->name = p + ENTRY_BYTES;
    if (*used > left)
        return refuse(where, "a directory entry extends beyond the directory");
    if (!read_extra64(r->name + r->n_name, n_extra, fields))
        return refuse_record(where, r, "its extra field in the central directory is malformed");
    if (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return refuse_record(where, r, "encrypted");
    if (method != 0)
        return refuse_record(where, r,
                             "compressed; need an uncompressed record, as torch.save writes it");
    if (packed != size)
        return refuse_record(where, r,
                             "uncompressed, but its compressed and uncompressed sizes differ");
    if (kvr_little_endian(p + 34, 2) != 0)
        return refuse_record(where, r, "on another disk");
    return read_local(r, where, bytes, dir_begin, size);
}

static int by_name(const void *a, const void *b)
{
    const struct kvr_zipfile_record *x = a, *y = b;
    int c = memcmp(x->name, y->name, x->n_name < y->n_name ? x->n_name : y->n_name);

    return c ? c : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

static int by_place(const void *a, const void *b)
{
    const struct kvr_zipfile_record *x = a, *y = b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

static enum kvr_status check_records(struct kvr_zipfile *z, const char *where,
                                     const unsigned char *bytes)
{
    qsort(z->records, z->n, sizeof *z->records, by_place);
    for (size_t i = 1; i < z->n; i++) {
        const struct kvr_zipfile_record *a = &z->records[i - 1], *b = &z->records[i];

        if ((uint64_t)(a->data - bytes) + a->n > b->begin)
            return refuse_record(where, b, "overlaps another");
    }
    qsort(z->records, z->n, sizeof *z->records, by_name);
    for (size_t i = 1; i < z->n; i++)
        if (by_name(&z->records[i - 1], &z->records[i]) == 0)
            return refuse_record(where, &z->records[i], "is there twice");
    return KVR_OK;
}

static enum kvr_status read_records(struct kvr_zipfile *z, const char *where,
                                    const unsigned char *bytes, const struct end *e)
{
    uint64_t at = e->dir_begin, used;

    z->records = calloc(e->n_records + 1, sizeof *z->records);
    if (!z->records)
        return kvr_fail(KVR_ENOMEM, "%s: zip: out of memory while allocating %" PRIu64 " records",
                        where, e->n_records);
    for (; z->n < e->n_records; z->n++) {
        KVR_TRY(read_entry(&z->records[z->n], where, bytes, bytes + at, e->dir_end - at,
                           e->dir_begin, &used));
        at += used;
    }
    if (at != e->dir_end)
        return refuse(where, "bytes between the central directory's last entry and its end record");
    return check_records(z, where, bytes);
}

enum kvr_status kvr_zipfile_read(struct kvr_zipfile *z, const char *where,
                                 const unsigned char *bytes, size_t n)
{
    enum kvr_status st;
    struct end e;

    *z = (struct kvr_zipfile){ 0 };
    KVR_TRY(read_end(&e, where, bytes, n));
    st = read_records(z, where, bytes, &e);
    if (st != KVR_OK)
        kvr_zipfile_free(z);
    return st;
}

void kvr_zipfile_free(struct kvr_zipfile *z)
{
    free(z->records);
    *z = (struct kvr_zipfile){ 0 };
}

const struct kvr_zipfile_record *kvr_zipfile_find(const struct kvr_zipfile *z, const void *name,
                                                  size_t n)
{
    const struct kvr_zipfile_record key = { .name = name, .n_name = n };

    return z->n ? bsearch(&key, z->records, z->n, sizeof *z->records, by_name) : NULL;
}
