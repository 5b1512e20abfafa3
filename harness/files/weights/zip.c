/* zip.c - reads the end record, central directory and local headers of a zip archive, and checks
 * that they agree. */
#include "harness/files/weights/zip.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/bytes.h"
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

static const char several_disks[] =
    "the archive is split over several disks; need an archive in one file";

/* refuse(where, format, ...): fails with a message that begins with the file's path. */
#define refuse(where, ...) kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: zip", where)

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
        return refuse(where, "%s", several_disks);
    if (at > locator_at || locator_at - at < END64_BYTES || !signature(bytes + at, 6, 6))
        return refuse(where,
                      "the ZIP64 locator points to byte %" PRIu64
                      ", but no ZIP64 end record begins there",
                      at);
    p = bytes + at;
    if (kvr_little_endian(p + 4, 8) != locator_at - at - 12)
        return refuse(where,
                      "the ZIP64 end record states a size of %" PRIu64 " bytes, but has %" PRIu64,
                      kvr_little_endian(p + 4, 8), locator_at - at - 12);
    if (kvr_little_endian(p + 16, 4) != 0 || kvr_little_endian(p + 20, 4) != 0 ||
        kvr_little_endian(p + 24, 8) != kvr_little_endian(p + 32, 8))
        return refuse(where, "%s", several_disks);
    if (!agrees(e->n_records, 0xffff, kvr_little_endian(p + 32, 8)) ||
        !agrees(e->dir_bytes, 0xffffffff, kvr_little_endian(p + 40, 8)) ||
        !agrees(e->dir_begin, 0xffffffff, kvr_little_endian(p + 48, 8)))
        return refuse(where, "the ZIP64 end record and the end record differ in the number of "
                             "records, or in the size or offset of the central directory");
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
        return refuse(
            where,
            "the last %d of the file's %zu bytes are not an end record: the file is truncated, "
            "has a comment or is no ZIP archive",
            (int)END_BYTES, n);
    p = bytes + n - END_BYTES;
    if (kvr_little_endian(p + 20, 2) != 0)
        return refuse(where,
                      "the end record states a comment of %" PRIu64 " bytes, but none follows",
                      kvr_little_endian(p + 20, 2));
    if (kvr_little_endian(p + 4, 2) != 0 || kvr_little_endian(p + 6, 2) != 0 ||
        kvr_little_endian(p + 8, 2) != kvr_little_endian(p + 10, 2))
        return refuse(where, "%s", several_disks);
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
        return kvr_fail(
            KVR_EFORMAT,
            "%s: zip: %" PRIu64 " records do not fit in a central directory of %" PRIu64
            " bytes: each needs at least %d bytes, and at most %d records are supported",
            where, e->n_records, e->dir_bytes, (int)ENTRY_BYTES, MAX_RECORDS);
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

/* refuse_record(where, r, format, ...): like refuse(), and the message names the record. */
#define refuse_record(where, r, ...)                                                               \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: zip: record '%s'", where,             \
                    kvr_printable((char[KVR_PRINTABLE]){ 0 }, (r)->name, (r)->n_name))

static enum kvr_status read_local(struct kvr_zipfile_record *r, const char *where,
                                  const unsigned char *bytes, uint64_t dir_begin, uint64_t n_data)
{
    const unsigned char *p;
    uint64_t head;

    if (r->begin > dir_begin || dir_begin - r->begin < LOCAL_BYTES ||
        !signature(bytes + r->begin, 3, 4))
        return refuse_record(
            where, r,
            "the central directory places the record's local header at byte %" PRIu64
            ", but no local header begins there",
            r->begin);
    p = bytes + r->begin;
    head = LOCAL_BYTES + kvr_little_endian(p + 26, 2) + kvr_little_endian(p + 28, 2);
    if (head > dir_begin - r->begin || n_data > dir_begin - r->begin - head)
        return refuse_record(where, r,
                             "the %" PRIu64
                             " bytes of the record's data extend beyond byte %" PRIu64
                             ", where the central directory begins",
                             n_data, dir_begin);
    if (kvr_little_endian(p + 26, 2) != r->n_name ||
        memcmp(p + LOCAL_BYTES, r->name, r->n_name) != 0)
        return refuse_record(
            where, r,
            "the record's name in the local header differs from its name in the central directory");
    if (kvr_little_endian(p + 8, 2) != 0 ||
        (kvr_little_endian(p + 6, 2) & (FLAG_ENCRYPTED | FLAG_STRONG)))
        return refuse_record(where, r,
                             "the record's local header has compression method %" PRIu64
                             " and flags 0x%" PRIx64
                             "; need method 0 (uncompressed) and no encryption",
                             kvr_little_endian(p + 8, 2), kvr_little_endian(p + 6, 2));
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
        return refuse(where,
                      "the central directory's entry at byte %" PRIu64
                      " is truncated or does not begin with the signature of an entry",
                      (uint64_t)(p - bytes));
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
        return refuse(where,
                      "the central directory's entry at byte %" PRIu64 " has %" PRIu64
                      " bytes, but only %" PRIu64 " are left in the directory",
                      (uint64_t)(p - bytes), *used, left);
    if (!read_extra64(r->name + r->n_name, n_extra, fields))
        return refuse_record(
            where, r, "the record's entry in the central directory has a malformed extra field");
    if (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return refuse_record(where, r,
                             "the record is encrypted; need an archive without encryption");
    if (method != 0)
        return refuse_record(where, r,
                             "the record has compression method %" PRIu64
                             "; need method 0 (uncompressed), as torch.save writes it",
                             method);
    if (packed != size)
        return refuse_record(where, r,
                             "the record is uncompressed, but its compressed size (%" PRIu64
                             " bytes) and uncompressed size (%" PRIu64 " bytes) differ",
                             packed, size);
    if (kvr_little_endian(p + 34, 2) != 0)
        return refuse_record(where, r, "%s", several_disks);
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
            return refuse_record(where, b,
                                 "the record begins at byte %" PRIu64
                                 ", but the record before it in the file ends at byte %" PRIu64,
                                 b->begin, (uint64_t)(a->data - bytes) + a->n);
    }
    qsort(z->records, z->n, sizeof *z->records, by_name);
    for (size_t i = 1; i < z->n; i++)
        if (by_name(&z->records[i - 1], &z->records[i]) == 0)
            return refuse_record(where, &z->records[i],
                                 "the archive has two records with this name");
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
        return refuse(where,
                      "%" PRIu64
                      " bytes lie between the last entry of the central directory and the "
                      "end record, but none are allowed",
                      e->dir_end - at);
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
