/* late.c - opens libkvreel.so with dlopen() after other libraries have used up static TLS.
 *
 *     late LIBRARY SCRATCH EATER.so,... NEEDED.so... [-- OTHER_OPENMP.so]
 *
 * The program loads the NEEDED libraries, then copies of each eater until glibc has no static TLS
 * left for another copy, then LIBRARY. It uses LIBRARY in the main thread and in a thread created
 * after loading. Three times, it closes LIBRARY, opens it again and repeats both uses.
 * OTHER_OPENMP.so, if given, is a second OpenMP runtime. The program runs a parallel loop in it
 * before, between and after the uses of LIBRARY, because two runtimes must work in one process. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/abi/kvreel.h"

enum { TOKENS = 512, HEADS = 4, DIM = 64, N = TOKENS * HEADS * DIM, MOST_EATERS = 4096 };

static float k[N], v[N], k2[N], v2[N];
static char hash[65]; /* hash of the block that the first call of use() encodes */
static const char *library;

struct calls {
    void *handle;
    __typeof__(&kvreel_method_open) method_open;
    __typeof__(&kvreel_method_close) method_close;
    __typeof__(&kvreel_block_encode) encode;
    __typeof__(&kvreel_block_decode) decode;
    __typeof__(&kvreel_block_hash) hash;
    __typeof__(&kvreel_block_free) block_free;
    __typeof__(&kvreel_error) error;
};

static void die(const char *what, const char *why)
{
    printf("%s: %s\n", what, why ? why : "?");
    exit(1);
}

static void *symbol(void *handle, const char *name)
{
    void *p = dlsym(handle, name);

    if (!p)
        die(name, dlerror());
    return p;
}

static struct calls opened(void)
{
    void *h = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!h)
        die("dlopen", dlerror());
    return (struct calls){
        .handle = h,
        .method_open = symbol(h, "kvreel_method_open"),
        .method_close = symbol(h, "kvreel_method_close"),
        .encode = symbol(h, "kvreel_block_encode"),
        .decode = symbol(h, "kvreel_block_decode"),
        .hash = symbol(h, "kvreel_block_hash"),
        .block_free = symbol(h, "kvreel_block_free"),
        .error = symbol(h, "kvreel_error"),
    };
}

/* Encodes and decodes a block. Its hash must equal that of the first call. */
static void use(const struct calls *c)
{
    struct kvreel_block_shape s = { sizeof s, .n_tok = TOKENS, .n_heads = HEADS, .head_dim = DIM };
    kvreel_method *m = NULL;
    kvreel_block *b = NULL;
    char hex[65] = "";
    double far = 0, all = 0;

    if (c->method_open(&m, "RTN_INT5", NULL) != KVREEL_ENOTFOUND || !strstr(c->error(), "RTN_INT5"))
        die("opening an unknown method", c->error());
    if (c->method_open(&m, "TURBOQUANT_PROD_4BIT", NULL) || c->encode(&b, m, k, v, &s) ||
        c->decode(b, k2, v2, NULL) || c->hash(b, hex))
        die("encoding and decoding", c->error());
    for (int i = 0; i < N; i++) {
        far += (double)(k2[i] - k[i]) * (double)(k2[i] - k[i]);
        all += (double)k[i] * (double)k[i];
    }
    if (!(far > 0 && far < 0.2 * all))
        die("decoded keys", "not close to the encoded keys");
    if (!hash[0])
        memcpy(hash, hex, sizeof hash);
    if (strcmp(hash, hex) != 0)
        die("the hash differs from the first one", hex);
    c->block_free(&b);
    c->method_close(&m);
}

static void *use_in_thread(void *calls)
{
    use(calls);
    return NULL;
}

static void use_everywhere(const struct calls *c)
{
    pthread_t thread;
    struct calls copy = *c;

    use(c);
    if (pthread_create(&thread, NULL, use_in_thread, &copy) || pthread_join(thread, NULL))
        die("thread", "cannot be created");
}

static int copied(const char *from, const char *to)
{
    char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    const size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    const int good = out && n > 0 && n < sizeof bytes && fwrite(bytes, 1, n, out) == n;

    if (in)
        fclose(in);
    return out && fclose(out) == 0 && good;
}

/* Loads copies of each eater until dlopen() fails for lack of static TLS. */
static void eat(const char *scratch, char *eaters)
{
    int n = 0;

    for (char *at = strtok(eaters, ","); at; at = strtok(NULL, ",")) {
        char path[4096];
        const char *why;

        do {
            if (n == MOST_EATERS)
                die("static TLS", "not used up by 4096 libraries");
            snprintf(path, sizeof path, "%s/eater%d.so", scratch, n++);
            if (!copied(at, path))
                die(path, "cannot be written");
        } while (dlopen(path, RTLD_NOW | RTLD_LOCAL));
        why = dlerror();
        if (!why || !strstr(why, "static TLS"))
            die(path, why);
    }
    if (n < 2)
        die("static TLS", "the first eater could not be loaded");
}

static void count(void *n)
{
    __atomic_fetch_add((int *)n, 1, __ATOMIC_RELAXED);
}

/* Runs a parallel loop of four threads in the second OpenMP runtime. */
static void other_loop(void (*parallel)(void (*)(void *), void *, unsigned, unsigned))
{
    int n = 0;

    parallel(count, &n, 4, 0);
    if (n != 4)
        die("the second OpenMP runtime", "did not run four threads");
}

int main(int argc, char **argv)
{
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = NULL;
    struct calls c;

    if (argc < 4)
        die("late", "LIBRARY SCRATCH EATERS NEEDED... [-- OTHER_OPENMP]");
    library = argv[1];
    for (int i = 0; i < N; i++) {
        k[i] = sinf((float)i * 0.7f);
        v[i] = cosf((float)i * 0.3f);
    }
    for (int i = 4; i < argc; i++) {
        const int other = !strcmp(argv[i], "--");
        void *h = dlopen(argv[i + other], RTLD_NOW | RTLD_LOCAL);

        if (!h)
            die("a NEEDED library", dlerror());
        if (other) {
            *(void **)&parallel = symbol(h, "GOMP_parallel");
            other_loop(parallel);
            break;
        }
    }
    eat(argv[2], argv[3]);
    c = opened();
    use_everywhere(&c);
    for (int i = 0; i < 3; i++) {
        if (parallel)
            other_loop(parallel);
        if (dlclose(c.handle))
            die("dlclose", dlerror());
        c = opened();
        use_everywhere(&c);
    }
    if (parallel)
        other_loop(parallel);
    puts("late");
    return 0;
}
