/* both.h - shared by tests of CUDA kernels: one stream, copies, guarded outputs.
 *
 * Emulated, buffers have their exact size and every access is checked; on a device outputs lie
 * between guard bytes. */
#ifndef KVR_TESTS_BOTH_H
#define KVR_TESTS_BOTH_H

#include "harness/device/stream.h"
#include "tests/methods/codec_tools.h"

extern struct kvr_stream *both_stream; /* opened by main, */
extern struct kvr_dev *both_dev;       /* and a device for what needs more than a stream */

/* Device memory with these n bytes. */
void *both_in(const void *host, size_t n);
/* Device memory for n bytes of output, not written yet. */
void *both_out(size_t n);
/* Device memory for n bytes of output that start as `host`. */
void *both_inout(const void *host, size_t n);
/* Wait; fail the test on an error; copy the output to host; check its guards. */
void both_get(void *host, const void *out, size_t n, const char *what);
/* Everything that both_in, both_out and both_inout gave. */
void both_free(void);

TCase *cases_attend(void);
TCase *cases_corrections(void);
TCase *cases_codec(void);
TCase *cases_conv(void);
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
