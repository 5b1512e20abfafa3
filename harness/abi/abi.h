/* abi.h - the C ABI's method handle, and functions that copy structs from and to its caller. */
#ifndef KVR_ABI_ABI_H
#define KVR_ABI_ABI_H

#include "harness/abi/kvreel.h"
#include "methods/method.h"

struct kvreel_method {
    struct kvr_scheme *scheme;
};

/* Copies the caller's struct `theirs` of `size` bytes to the library's struct `ours` of n bytes.
 * Members that `theirs` lacks become 0. If `size` is less than sizeof(size_t) or more than 4096,
 * the function returns KVR_EINVAL. */
enum kvr_status kvr_abi_take(const char *what, void *ours, size_t n, const void *theirs,
                             size_t size);
/* Copies the library's struct `ours` to the caller's struct `theirs`, up to the caller's size. The
 * member `size` of `theirs` is unchanged. */
enum kvr_status kvr_abi_give(const char *what, void *theirs, size_t size, const void *ours,
                             size_t n);

#endif
