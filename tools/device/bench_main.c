/* bench_main.c - `kvreel bench codec|attention|gemm --json` for a machine without kvreel's
 * libraries. Prints the same rows, one JSON object per line, flushed one by one, so that completed
 * rows survive a time limit.
 *
 *     bench ROUNDS occupancy attention codec gemm > rows.jsonl
 *     bench ROUNDS cudnn                          whether cuDNN has an attention kernel, or why not
 *     bench ROUNDS                                only opens the device and runs a kernel on it
 *
 * watch.h documents how rows are skipped and limited. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_codec.h"
#include "harness/bench/bench_cudnn.h"
#include "harness/bench/bench_gemm.h"
#include "harness/cache/attend_mma.h"
#include "harness/device/stream.h"
#include "methods/method.h"
#include "tools/device/watch.h"

static enum kvr_status codec(struct kvr_dev *dev, int rounds, const struct kvr_bench_sink *sink,
                             struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec_cuda(dev, NULL, rounds, sink, rows, n);
}

static const struct {
    const char *name;
    enum kvr_status (*run)(struct kvr_dev *, int rounds, const struct kvr_bench_sink *,
                           struct kvr_bench_row *, int *n);
} benches[] = { { "codec", codec },
                { "attention", kvr_bench_attention_cuda },
                { "gemm", kvr_bench_gemm_cuda } };
enum { N_BENCHES = sizeof benches / sizeof benches[0], MAX_ROWS = 96 };
_Static_assert((int)KVR_BENCH_CODEC_ROWS <= (int)MAX_ROWS &&
                   (int)KVR_BENCH_ATTENTION_ROWS <= (int)MAX_ROWS &&
                   (int)KVR_BENCH_GEMM_ROWS <= (int)MAX_ROWS,
               "MAX_ROWS is enough for every benchmark");

static void number(const char *key, double x)
{
    if (isfinite(x))
        printf("\"%s\": %.6g, ", key, x);
    else
        printf("\"%s\": null, ", key);
}

static void known(const char *key, double x)
{
    number(key, x > 0 ? x : NAN);
}

/* Prints a JSON string member. Quotes, backslashes and control characters of `text`, which may come
 * from a library, become spaces. */
static void quoted(const char *key, const char *text)
{
    printf("\"%s\": \"", key);
    for (; *text; text++)
        putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? ' ' : *text);
    printf("\", ");
}

static bool wanted(void *ctx, const char *name)
{
    (void)ctx;
    return watch_begin(name);
}

static void print(void *ctx, const struct kvr_bench_row *r)
{
    (void)ctx;
    watch_end();
    printf("{\"name\": \"%s\", \"device\": \"%s\", ", r->name, r->device);
    number("median", r->median);
    number("min", r->min);
    number("ratio", r->ratio);
    number("ratio_q1", r->ratio_q1);
    number("ratio_q3", r->ratio_q3);
    known("mhz", r->mhz);
    known("watts", r->watts);
    known("blocks", r->blocks);
    number("cold", r->cold);
    number("warm", r->warm);
    printf("\"unit\": \"%s\", \"reference\": \"%s\", ", r->unit, r->reference);
    if (r->missing[0])
        quoted("missing", r->missing);
    else
        printf("\"missing\": null, ");
    printf("\"n\": %d}\n", r->n);
    fflush(stdout);
}

/* Prints how many thread blocks of each method's attention kernel fit on one multiprocessor, by
 * CUDA's occupancy calculator. The kernels are designed for two if shared memory suffices. */
static enum kvr_status occupancy(struct kvr_dev *dev)
{
    static const char *const methods[] = { "BF16", "RTN_INT4", "RTN_INT8", "KIVI_INT2",
                                           "PRQ_INT4" };
    struct kvr_stream *s = kvr_dev_stream(dev);
    const size_t most = kvr_stream_block_shared(s);
    const struct kvr_attend_shape shape = { 4680, 12, 128 };

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const struct kvr_block_shape block = { KVR_ATTEND_MMA_TILE, shape.n_heads, shape.head_dim };
        struct kvr_scheme *scheme;

        KVR_TRY(kvr_scheme_open(&scheme, methods[i], NULL, 0));
        const struct kvr_packed k = { .codec = scheme->k[0], .shape = block },
                                v = { .codec = scheme->v[0], .shape = block };
        const struct kvr_attend_mma_span span = { .k.packed = &k,
                                                  .v.packed = &v,
                                                  .n = block.n_tok };

        printf("{\"name\": \"occupancy.%s\", \"unit\": \"blocks\", \"median\": %d, "
               "\"shared_bytes\": %zu, \"block_shared_bytes\": %zu}\n",
               methods[i], kvr_attend_mma_blocks(s, &shape, &span),
               kvr_attend_mma_shared_bytes(most, &shape, &span), most);
        kvr_scheme_close(&scheme);
    }
    return kvr_dev_sync(dev);
}

/* Prints 1 if cuDNN has an attention kernel for 4,680 queries and keys of 12 heads, else 0 and the
 * reason. The environment variables CUDNN_LOGLEVEL_DBG and CUDNN_LOGDEST_DBG enable cuDNN's log. */
static enum kvr_status cudnn(struct kvr_dev *dev)
{
    enum { TOKENS = 4680, HEADS = 12, DIM = 128 };
    float *q = calloc((size_t)TOKENS * HEADS * DIM, sizeof *q);
    struct kvr_bench_cudnn b;
    enum kvr_status st;

    if (!q)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory");
    st = kvr_bench_cudnn_open(&b, dev, HEADS, DIM, TOKENS, q);
    if (st == KVR_OK)
        st = kvr_bench_cudnn_keys(&b, TOKENS);
    free(q);
    printf("{\"name\": \"cudnn.plan\", \"unit\": \"kernels\", \"median\": %d, ", !b.why[0]);
    quoted("missing", b.why);
    printf("\"n\": 1}\n");
    fflush(stdout);
    kvr_bench_cudnn_close(&b);
    return st;
}

/* Checks that the device works: a kernel fills device memory, and the host reads it. */
static enum kvr_status answers(struct kvr_dev *dev)
{
    struct kvr_buf b = { 0 };
    unsigned char got[64] = { 0 };
    enum kvr_status st = kvr_buf_alloc(&b, dev, KVR_MEM_IO, sizeof got);

    if (st == KVR_OK) {
        kvr_device_fill(kvr_dev_stream(dev), b.p, 0x5a, sizeof got);
        st = kvr_dev_get(dev, got, b.p, sizeof got);
    }
    if (st == KVR_OK && got[63] != 0x5a)
        st = kvr_fail(KVR_EINTERNAL, "the device returns other bytes than it was filled with");
    kvr_buf_free(&b);
    return st;
}

/* After an error, the next benchmark still runs, and rows already printed stay valid. The error is
 * printed on stderr and makes the exit status 1. */
int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    const struct kvr_bench_sink sink = { print, wanted, NULL };
    struct kvr_bench_row rows[MAX_ROWS];
    struct kvr_dev *dev;
    int bad = 0;

    if (kvr_dev_open(&dev, KVR_CUDA) != KVR_OK) {
        fprintf(stderr, "bench: %s\n", kvr_error());
        return EXIT_FAILURE;
    }
    if (argc < 3 && answers(dev) != KVR_OK) {
        fprintf(stderr, "bench: %s\n", kvr_error());
        bad = 1;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "occupancy") == 0 && watch_begin("occupancy") &&
            occupancy(dev) != KVR_OK) {
            fprintf(stderr, "bench occupancy: %s\n", kvr_error());
            bad = 1;
        }
        if (strcmp(argv[i], "cudnn") == 0 && watch_begin("cudnn.plan") && cudnn(dev) != KVR_OK) {
            fprintf(stderr, "bench cudnn: %s\n", kvr_error());
            bad = 1;
        }
        watch_end();
        for (int b = 0; b < N_BENCHES; b++) {
            int n = 0;

            if (strcmp(benches[b].name, argv[i]) != 0)
                continue;
            if (benches[b].run(dev, rounds, &sink, rows, &n) != KVR_OK) {
                fprintf(stderr, "bench %s: %s\n", argv[i], kvr_error());
                bad = 1;
            }
        }
    }
    kvr_dev_close(&dev);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
