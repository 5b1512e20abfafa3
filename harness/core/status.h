/* status.h - status codes, and the message that explains a failure.
 *
 *     if (group <= 0)
 *         return kvr_fail(KVR_EINVAL, "sym: group %d, need 1..4096", group);
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));
 *
 * The message belongs to the calling thread and lives until its next kvr_fail(). */
#ifndef KVR_CORE_STATUS_H
#define KVR_CORE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_status {
    KVR_OK = 0,
    KVR_EINVAL,       /* usage or configuration: exit code 2 */
    KVR_ENOMEM,       /* host memory, or the allocator's injected failure */
    KVR_EIO,          /* a read, write or open failed */
    KVR_EFULL,        /* no space left */
    KVR_EFORMAT,      /* malformed file */
    KVR_ENOTFOUND,    /* no such file, name, tensor */
    KVR_EUNSUPPORTED, /* not built here, or not possible with these settings */
    KVR_ESCHEMA,      /* database of another version */
    KVR_EBUSY,        /* held by another process */
    KVR_EINTERRUPTED, /* stopped by the user; resumable */
    KVR_ENAN,         /* a required number is not finite */
    KVR_ETOLERANCE,   /* a comparison out of tolerance: exit code 4 */
    KVR_EINTERNAL,    /* a bug in kvreel */
    KVR_EDIVERGED,    /* finite values far outside a model's normal range */
    KVR_N_STATUS
};

/* Stores the message for this thread and returns `st`. */
enum kvr_status kvr_fail(enum kvr_status st, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Prepends "prefix: " to this thread's message; returns `st`. */
enum kvr_status kvr_fail_prefix(enum kvr_status st, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* This thread's last message; "" if there is none. Never NULL. */
const char *kvr_error(void);

/* "EINVAL", ... for logs and rows. */
const char *kvr_status_name(enum kvr_status st);

#define KVR_TRY(call)                                                                              \
    do {                                                                                           \
        enum kvr_status kvr_try_st_ = (call);                                                      \
        if (kvr_try_st_ != KVR_OK)                                                                 \
            return kvr_try_st_;                                                                    \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
