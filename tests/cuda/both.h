/* both.h - shared by tests of CUDA kernels: a stream, copies to and from device memory, and output
 * buffers between guard bytes.
 *
 * On an emulated device, buffers have their exact size and every access is checked. On a GPU,
 * output buffers lie between guard bytes, which reveal writes outside a buffer. */
#ifndef KVR_TESTS_BOTH_H
#define KVR_TESTS_BOTH_H

#include "harness/device/stream.h"
#include "tests/methods/codec_tools.h"

extern struct kvr_stream *both_stream; /* opened by main() */
extern struct kvr_dev *both_dev;       /* CUDA device, opened by main() */

/* Returns device memory with a copy of the n bytes at `host`. */
void *both_in(const void *host, size_t n);
/* Returns uninitialized device memory for n bytes of output. */
void *both_out(size_t n);
/* Like both_out, for buffers that the kernel both reads and writes: they initially contain the n
 * bytes at `host`. */
void *both_inout(const void *host, size_t n);
/* Synchronizes the stream, copies n bytes of output to the host and checks the guard bytes.
 * Fails the test on an error. */
void both_get(void *host, const void *out, size_t n, const char *what);
/* Frees all memory from both_in, both_out and both_inout. */
void both_free(void);

TCase *cases_attend(void);
TCase *cases_corrections(void);
TCase *cases_codec(void);
TCase *cases_conv(void);
TCase *cases_eager(void);
TCase *cases_stages(void);
TCase *cases_outliers(void);
TCase *cases_mma(void);
TCase *cases_bytes(void);
TCase *cases_ops(void);
TCase *cases_policy(void);
TCase *cases_product(void);
TCase *cases_rows(void);
TCase *cases_stream(void);
TCase *cases_gemm(void);
TCase *cases_wan(void);

#endif
