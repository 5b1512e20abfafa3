/* allocator.h - whether a test may define its own malloc().
 *
 * Defines OTHERS_ALLOCATE if a sanitizer replaces the allocator, or if glibc's __libc_malloc() does
 * not exist. Tests that count or refuse allocations then skip these checks. */
#ifndef KVR_TESTS_ALLOCATOR_H
#define KVR_TESTS_ALLOCATOR_H

#include <stdlib.h> /* defines __GLIBC__ */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHERS_ALLOCATE
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHERS_ALLOCATE
#endif
#ifndef __GLIBC__
#define OTHERS_ALLOCATE
#endif

#endif
