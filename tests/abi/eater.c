/* eater.c - a library with BYTES of static thread-local storage (TLS). late.c loads copies of it
 * until the process has no static TLS left. */
#ifndef BYTES
#define BYTES 1
#endif
static __thread char eaten[BYTES] __attribute__((tls_model("initial-exec")));

char *eat(void);

char *eat(void)
{
    return eaten;
}
