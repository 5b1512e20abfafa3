/* emu_traffic.cc - counts the global-memory bytes that each kernel accesses (traffic.h). The
 * numbers of bytes come from the shadow memory, which records the last launch that accessed each
 * byte. */
#include "harness/device/emu/emu_machine.cuh"
#include "harness/device/traffic.h"

#include <cstdlib>
#include <cstring>

struct kvr_emu::traffic {
    struct kvr_traffic_line line[MAX_KERNELS + 2];
    int n;
};

namespace kvr_emu
{

/* Returns the traffic counters of the kernel `what`; template arguments in the name are ignored. */
static struct kvr_traffic_line *line_of(struct traffic *t, const char *what)
{
    const size_t n = strcspn(what, "<");

    for (int i = 0; i < t->n; i++)
        if (!strncmp(t->line[i].what, what, n) && !t->line[i].what[n])
            return &t->line[i];
    if (t->n == MAX_KERNELS + 2 || n >= sizeof t->line[0].what)
        abort();
    memcpy(t->line[t->n].what, what, n);
    return &t->line[t->n++];
}

void account_launch(struct kvr_stream *s, const char *kernel)
{
    struct kvr_traffic_line *line = line_of(s->traffic, kernel);

    line->launches++;
    for (const struct region *r = s->regions; r; r = r->next)
        for (size_t i = 0; i < (r->n + r->unit - 1) / r->unit; i++) {
            const struct cell *c = &r->cells[i];
            const size_t rest = r->n - i * r->unit;
            const int64_t n = (int64_t)(rest < r->unit ? rest : r->unit);

            if (serial_of(c->write) >= s->launch_serial)
                line->written += n;
            if (serial_of(c->read[0]) >= s->launch_serial)
                line->read += n;
        }
}

void account_move(struct kvr_stream *s, const char *what, int64_t read, int64_t written)
{
    struct kvr_traffic_line *line = line_of(s->traffic, what);

    line->launches++;
    line->read += read;
    line->written += written;
}

} // namespace kvr_emu

void kvr_stream_account(struct kvr_stream *s, bool on)
{
    free(s->traffic);
    s->traffic = on ? (struct kvr_emu::traffic *)calloc(1, sizeof *s->traffic) : NULL;
    if (on && !s->traffic)
        abort();
}

int kvr_stream_traffic(const struct kvr_stream *s, struct kvr_traffic_line *lines, int most)
{
    const int n = s->traffic ? s->traffic->n : 0;

    for (int i = 0; i < n && i < most; i++)
        lines[i] = s->traffic->line[i];
    return n;
}
