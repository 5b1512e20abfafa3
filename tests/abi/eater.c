/* eater.c - a library with BYTES of static TLS, to exhaust a process's reserve (late.c). */
#ifndef BYTES
#define BYTES 1
#endif
static __thread char eaten[BYTES] __attribute__((tls_model("initial-exec")));

char *eat(void);

char *eat(void)
{
    return eaten;
}
