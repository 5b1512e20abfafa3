/* fuzz.h - the entry point of every fuzz target. libFuzzer calls it with generated inputs, and
 * replay.c with the contents of files.
 *
 *     make fuzz FUZZ=gguf SECONDS=60      or
 *     make fuzz-seeds */
#ifndef KVR_TESTS_FUZZ_H
#define KVR_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs one input and returns 0. A failed check aborts the process. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#endif
