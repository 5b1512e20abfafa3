/* emu_fiber.cc - stacks of fibers, and context switches between fibers. On x86-64 the context
 * switch is written in assembly, because swapcontext makes a system call. Every context switch is
 * announced to AddressSanitizer. */
#include "harness/device/emu/emu_machine.cuh"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#ifdef KVR_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kvr_emu
{

#ifndef KVR_EMU_UCONTEXT
extern "C" void kvr_emu_switch(void **save, void *load);
__asm__(".text\n.type kvr_emu_switch,@function\nkvr_emu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size kvr_emu_switch,.-kvr_emu_switch\n");

static void prepare(struct context *c, void (*entry)())
{
    /* The initial stack contains six callee-saved registers, the return address `entry`, and one
     * word that aligns the stack as after a call. */
    void **top = (void **)((uintptr_t)c->bottom + c->size) - 8;

    for (int i = 0; i < 8; i++)
        top[i] = NULL;
    top[6] = (void *)entry;
    c->sp = top;
}

static void jump(struct context *from, struct context *to)
{
    kvr_emu_switch(&from->sp, to->sp);
}
#else
static void prepare(struct context *c, void (*entry)())
{
    getcontext(&c->u);
    c->u.uc_stack.ss_sp = (void *)c->bottom;
    c->u.uc_stack.ss_size = c->size;
    c->u.uc_link = NULL;
    makecontext(&c->u, entry, 0);
}

static void jump(struct context *from, struct context *to)
{
    swapcontext(&from->u, &to->u);
}
#endif

void leave_for(struct context *from, struct context *to, bool for_good)
{
#ifdef KVR_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake, to->bottom, to->size);
#else
    (void)for_good;
#endif
    jump(from, to);
#ifdef KVR_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

/* Prepares stacks whose tops have different offsets, because equally spaced stacks would compete
 * for a few sets of the CPU's cache. */
void fiber_stacks(struct kvr_stream *s, unsigned n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (; s->n_stacks < n; s->n_stacks++) {
        unsigned char *stack = s->stacks + (size_t)s->n_stacks * STACK_BYTES;
        struct context *c = &s->fibers[s->n_stacks].context;

        /* guard page: a stack overflow causes a segmentation fault */
        mprotect(stack, page, PROT_NONE);
        c->bottom = stack + page;
        c->size = STACK_BYTES - page - s->n_stacks % STACK_COLOURS * COLOUR_BYTES;
    }
}

/* Removes AddressSanitizer's poison from the stack. If the previous thread has returned, its
 * functions have unpoisoned their frames, and only the top LAST_FRAMES bytes may be poisoned. If
 * the previous launch was aborted, frames anywhere on the stack may be poisoned. Unpoisoning whole
 * stacks would be slow, because 256 stacks occupy 36 MB. */
void fiber_prepare(struct context *c, void (*entry)(), bool left)
{
#ifdef KVR_ASAN
    const size_t n = left ? (size_t)LAST_FRAMES : c->size;

    __asan_unpoison_memory_region((const unsigned char *)c->bottom + c->size - n, n);
#else
    (void)left;
#endif
    prepare(c, entry);
}

void fiber_arrived()
{
#ifdef KVR_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

void fiber_describe_host(struct context *host)
{
#ifdef KVR_ASAN
    pthread_attr_t attr;
    void *bottom;

    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &bottom, &host->size);
    pthread_attr_destroy(&attr);
    host->bottom = bottom;
#else
    (void)host;
#endif
}

} // namespace kvr_emu
