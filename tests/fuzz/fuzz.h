/* fuzz.h - what every fuzz target is: called by libFuzzer, or by replay.c with files.
 *
 *     make fuzz FUZZ=gguf SECONDS=60      or
 *     make fuzz-seeds */
#ifndef KVR_TESTS_FUZZ_H
#define KVR_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* 0; what must not be is an abort. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
