/* status.h - status codes, and a message that explains the last failure.
 *
 *     if (group <= 0)
 *         return kvr_fail(KVR_EINVAL, "sym: group %d, need 1..4096", group);
 *     KVR_TRY(kvr_buf_alloc(&b, dev, KVR_MEM_KV, n_bytes));
 *
 * A message belongs to the calling thread and is valid until the thread's next kvr_fail(). */
#ifndef KVR_CORE_STATUS_H
#define KVR_CORE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_status {
    KVR_OK = 0,
    KVR_EINVAL,       /* wrong usage or configuration; the program exits with code 2 */
    KVR_ENOMEM,       /* an allocation failed: no host or device memory is left, the limit of
                       * kvr_mem_set_limit() is reached, or kvr_mem_fail_after() injected it */
    KVR_EIO,          /* a read, write or open has failed */
    KVR_EFULL,        /* no space left on the disk */
    KVR_EFORMAT,      /* malformed file */
    KVR_ENOTFOUND,    /* no such file, name or tensor */
    KVR_EUNSUPPORTED, /* a feature is not in this build, or impossible with these settings */
    KVR_ESCHEMA,      /* a file is not a kvreel database, or this version of kvreel cannot read
                       * the database */
    KVR_EBUSY,        /* another process has locked the database */
    KVR_EINTERRUPTED, /* stopped by the user; the run can be resumed */
    KVR_ENAN,         /* a number that must be finite is NaN or infinite */
    KVR_ETOLERANCE,   /* a difference exceeds its tolerance; the program exits with code 4 */
    KVR_EINTERNAL,    /* a bug in kvreel */
    KVR_EDIVERGED,    /* a rollout's latents are finite, but far outside the range of latents in the
                       * model's configuration */
    KVR_N_STATUS
};

/* Formats `fmt`, stores the text as the calling thread's last message, and returns `st`. */
enum kvr_status kvr_fail(enum kvr_status st, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Prepends the formatted `fmt` and a colon to the calling thread's last message; returns `st`. */
enum kvr_status kvr_fail_prefix(enum kvr_status st, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The last message of the calling thread, or an empty string if there is none; never NULL. */
const char *kvr_error(void);

/* Name of the status, such as "EINVAL", for error messages and for the JSON replies of worker
 * processes. */
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
