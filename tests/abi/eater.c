/* eater.c - a library that takes BYTES of a process's static TLS (late.c). */
#ifndef BYTES
#define BYTES 1
#endif
static __thread char eaten[BYTES] __attribute__((tls_model("initial-exec")));

char *eat(void);

char *eat(void)
{
    return eaten;
}
