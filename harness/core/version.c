/* version.c - returns the version, commit, compiler and flags of the build, which the Makefile
 * defines as macros. */
#include "harness/core/version.h"

#ifndef KVR_GIT_HASH
#define KVR_GIT_HASH "unknown"
#endif
#ifndef KVR_GIT_DATE
#define KVR_GIT_DATE ""
#endif
#ifndef KVR_GIT_DIRTY
#define KVR_GIT_DIRTY 0
#endif
#ifndef KVR_CODE_HASH
#define KVR_CODE_HASH "unknown"
#endif
#ifndef KVR_CC
#define KVR_CC "cc"
#endif
#ifndef KVR_CFLAGS
#define KVR_CFLAGS ""
#endif

const char *kvr_version(void)
{
    return "0.1.0";
}

const char *kvr_git_hash(void)
{
    return KVR_GIT_HASH;
}

const char *kvr_git_date(void)
{
    return KVR_GIT_DATE;
}

bool kvr_git_dirty(void)
{
    return KVR_GIT_DIRTY;
}

const char *kvr_compiler(void)
{
    return KVR_CC ": " __VERSION__;
}

const char *kvr_cflags(void)
{
    return KVR_CFLAGS;
}

const char *kvr_code_hash(void)
{
    return KVR_CODE_HASH;
}
