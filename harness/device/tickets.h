/* tickets.h - allocates and reuses the indices of a stream's timing events. A ticket contains such
 * an index in its lower 32 bits. The events themselves are owned by stream_cuda.cu or
 * stream_emu.cc.
 *
 *     int64_t t = kvr_ticket_acquire(&s->tickets);          -1: no memory
 *     ... marks[kvr_ticket_slot(&s->tickets, t)] ...    -1: invalid
 *     kvr_ticket_release(&s->tickets, t);
 *     kvr_tickets_forget(&s->tickets);                   invalidates all
 *     kvr_tickets_free(&s->tickets); */
#ifndef KVR_DEVICE_TICKETS_H
#define KVR_DEVICE_TICKETS_H

#include <stdint.h>
#include <stdlib.h>

struct kvr_tickets {
    int64_t *back;              /* [max]: stack of n_back released indices */
    int64_t n_back, max, n_all; /* n_all: number of indices in use or released */
    int64_t forgotten;          /* number of calls of kvr_tickets_forget. A ticket is valid only
                                 * if its upper 32 bits equal this number, so that each call
                                 * invalidates all earlier tickets */
};

static inline int64_t kvr_ticket_acquire(struct kvr_tickets *t)
{
    if (!t->n_back && t->n_all == t->max) { /* reserves space for all indices in `back`, so that
                                             * kvr_ticket_release cannot fail */
        const int64_t n = t->max ? 2 * t->max : 64;
        int64_t *grown = (int64_t *)realloc(t->back, (size_t)n * sizeof *grown);

        if (!grown)
            return -1;
        t->back = grown;
        t->max = n;
    }
    return t->forgotten << 32 | (t->n_back ? t->back[--t->n_back] : t->n_all++);
}

static inline int64_t kvr_ticket_slot(const struct kvr_tickets *t, int64_t ticket)
{
    const int64_t slot = ticket & 0xffffffff;

    return ticket >= 0 && ticket >> 32 == t->forgotten && slot < t->n_all ? slot : -1;
}

/* Releases a ticket, which must be released only once; an invalid ticket is ignored. */
static inline void kvr_ticket_release(struct kvr_tickets *t, int64_t ticket)
{
    const int64_t slot = kvr_ticket_slot(t, ticket);

    if (slot >= 0 && t->n_back < t->n_all)
        t->back[t->n_back++] = slot;
}

static inline void kvr_tickets_forget(struct kvr_tickets *t)
{
    t->n_back = 0;
    while (t->n_back < t->n_all) {
        t->back[t->n_back] = t->n_all - 1 - t->n_back;
        t->n_back++;
    }
    t->forgotten++;
}

static inline void kvr_tickets_free(struct kvr_tickets *t)
{
    free(t->back);
    t->back = NULL;
    t->n_back = t->max = t->n_all = 0;
}

#endif
