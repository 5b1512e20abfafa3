/* abi.h - what the files of the ABI share. */
#ifndef KVR_ABI_ABI_H
#define KVR_ABI_ABI_H

#include "harness/abi/kvreel.h"
#include "methods/method.h"

struct kvreel_method {
    struct kvr_scheme *scheme;
};

/* A caller's struct of `size` bytes as one of ours of n: what it lacks is 0. KVR_EINVAL: `size` is
 * none that ever was. */
enum kvr_status kvr_abi_take(const char *what, void *ours, size_t n, const void *theirs,
                             size_t size);
/* The other way: as much of ours as the caller has room for, its `size` untouched. */
enum kvr_status kvr_abi_give(const char *what, void *theirs, size_t size, const void *ours,
                             size_t n);

#endif
