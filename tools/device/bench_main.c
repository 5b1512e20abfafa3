/* bench_main.c - `kvreel bench codec|attention|gemm --json` on a machine that has none of kvreel's
 * libraries: the same rows by printf.
 *
 *     bench ROUNDS codec attention gemm > rows.json */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_codec.h"
#include "harness/bench/bench_gemm.h"

static enum kvr_status codec(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec_cuda(dev, NULL, rounds, rows, n);
}

static const struct {
    const char *name;
    enum kvr_status (*run)(struct kvr_dev *, int rounds, struct kvr_bench_row *, int *n);
} benches[] = { { "codec", codec },
                { "attention", kvr_bench_attention_cuda },
                { "gemm", kvr_bench_gemm_cuda } };
enum { N_BENCHES = sizeof benches / sizeof benches[0], MAX_ROWS = 96 };
_Static_assert((int)KVR_BENCH_CODEC_ROWS <= (int)MAX_ROWS &&
                   (int)KVR_BENCH_ATTENTION_ROWS <= (int)MAX_ROWS &&
                   (int)KVR_BENCH_GEMM_ROWS <= (int)MAX_ROWS,
               "the rows of each fit");

static void number(const char *key, double x)
{
    if (isfinite(x))
        printf("\"%s\": %.6g, ", key, x);
    else
        printf("\"%s\": null, ", key);
}

static void print(const struct kvr_bench_row *r, const char *before)
{
    printf("%s\n    {\"name\": \"%s\", \"device\": \"%s\", ", before, r->name, r->device);
    number("median", r->median);
    number("min", r->min);
    number("ratio", r->ratio);
    number("ratio_q1", r->ratio_q1);
    number("ratio_q3", r->ratio_q3);
    printf("\"unit\": \"%s\", \"reference\": \"%s\", ", r->unit, r->reference);
    if (r->missing[0])
        printf("\"missing\": \"%s\", ", r->missing);
    else
        printf("\"missing\": null, ");
    printf("\"n\": %d}", r->n);
}

/* What was measured before an error stands; the error goes to stderr and to the exit status. */
int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    struct kvr_bench_row rows[MAX_ROWS];
    const char *before = "";
    struct kvr_dev *dev;
    int bad = 0;

    if (kvr_dev_open(&dev, KVR_CUDA) != KVR_OK) {
        fprintf(stderr, "bench: %s\n", kvr_error());
        return EXIT_FAILURE;
    }
    printf("[");
    for (int i = 2; i < argc; i++)
        for (int b = 0; b < N_BENCHES; b++) {
            int n = 0;

            if (strcmp(benches[b].name, argv[i]) != 0)
                continue;
            if (benches[b].run(dev, rounds, rows, &n) != KVR_OK) {
                fprintf(stderr, "bench %s: %s\n", argv[i], kvr_error());
                bad = 1;
                n = n > 0 && !rows[n - 1].n ? n - 1 : n; /* the one that failed */
            }
            for (int k = 0; k < n; k++, before = ",")
                print(&rows[k], before);
        }
    printf("\n  ]\n");
    kvr_dev_close(&dev);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
