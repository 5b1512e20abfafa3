/* progress.c - progress lines and bar. */
#include "harness/run/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/clock.h"

enum { BAR_WIDTH = 30 };

static bool wants_color(bool tty)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE"), *term = getenv("TERM");

    if (no && no[0])
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    return tty && term && strcmp(term, "dumb") != 0;
}

void kvr_progress_begin(struct kvr_progress *p, FILE *out, int total, int jobs, int64_t estimate_ns)
{
    const char *term = getenv("TERM");
    bool tty = out && isatty(fileno(out));

    memset(p, 0, sizeof *p);
    p->out = out;
    p->bar = tty && term && strcmp(term, "dumb") != 0;
    p->color = out && wants_color(tty);
    p->total = total;
    p->jobs = jobs;
    p->estimate_ns = estimate_ns;
    p->t0_ns = kvr_now_ns();
}

static void clear_bar(const struct kvr_progress *p)
{
    if (p->bar)
        fputs("\r\033[K", p->out);
}

static const char *duration(char *buf, size_t n, double s)
{
    if (!(s >= 0))
        snprintf(buf, n, "?");
    else if (s < 60)
        snprintf(buf, n, "%.0fs", s);
    else if (s < 3600)
        snprintf(buf, n, "%dm%02ds", (int)s / 60, (int)s % 60);
    else
        snprintf(buf, n, "%dh%02dm", (int)s / 3600, (int)s % 3600 / 60);
    return buf;
}

/* Estimates the seconds left from the mean time of the finished cells. While fewer cells than
 * workers have finished, it uses the estimate made before the run. NAN: no estimate. */
static double seconds_left(const struct kvr_progress *p)
{
    int left = p->total - p->done;

    if (p->done >= p->jobs)
        return (double)(kvr_now_ns() - p->t0_ns) / 1e9 / p->done * left;
    return p->estimate_ns ? (double)p->estimate_ns / 1e9 * left / p->total : NAN;
}

void kvr_progress_tick(struct kvr_progress *p)
{
    char bar[BAR_WIDTH + 1], eta[32];
    int filled = p->total ? BAR_WIDTH * p->done / p->total : BAR_WIDTH;

    if (!p->bar)
        return;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    fprintf(p->out, "\r\033[K[%s] %d/%d  %d failed  %s left", bar, p->done, p->total, p->failed,
            duration(eta, sizeof eta, seconds_left(p)));
    fflush(p->out);
}

void kvr_progress_say(struct kvr_progress *p, const char *fmt, ...)
{
    va_list ap;

    if (!p->out)
        return;
    clear_bar(p);
    va_start(ap, fmt);
    vfprintf(p->out, fmt, ap);
    va_end(ap);
    fputc('\n', p->out);
    fflush(p->out);
    kvr_progress_tick(p);
}

/* Prints what distinguishes cells of the same prompt and method, such as " (probe, step, rerun 2,
 * repeat 3)". Reruns and repeats count from 1. */
static void print_which(FILE *out, const struct kvr_cell *c)
{
    const char *open = " (";

    if (strcmp(c->set.kind, "bench") != 0) {
        fprintf(out, "%s%s", open, c->set.kind);
        open = ", ";
    }
    if (strcmp(c->set.forcing, "none") != 0) {
        fprintf(out, "%s%s", open, c->set.forcing);
        open = ", ";
    }
    if (c->set.jitter) {
        fprintf(out, "%srerun %lld", open, (long long)c->set.jitter);
        open = ", ";
    }
    if (c->repeat) {
        fprintf(out, "%srepeat %d", open, c->repeat + 1);
        open = ", ";
    }
    if (open[0] == ',')
        fputc(')', out);
}

static void print_cell(const struct kvr_progress *p, const struct kvr_cell *c,
                       const struct kvr_verdict *v)
{
    bool ok = v->outcome == KVR_OUT_OK;

    fprintf(p->out, "[%d/%d] %s %s", p->done, p->total, c->prompt->id, c->label);
    print_which(p->out, c);
    fprintf(p->out, ": %s%s%s", p->color && !ok ? "\033[31m" : "", kvr_outcome_name(v->outcome),
            p->color && !ok ? "\033[0m" : "");
    if (!ok)
        fprintf(p->out, ": %s", v->reason);
    if (v->wall_ns)
        fprintf(p->out, ", %.2f s", (double)v->wall_ns / 1e9);
    if (!isnan(v->psnr))
        fprintf(p->out, ", PSNR %.2f dB", v->psnr);
    if (!isnan(v->ssim))
        fprintf(p->out, ", SSIM %.4f", v->ssim);
    fputc('\n', p->out);
    fflush(p->out);
}

void kvr_progress_cell(struct kvr_progress *p, const struct kvr_cell *c,
                       const struct kvr_verdict *v)
{
    p->done++;
    p->failed += v->outcome != KVR_OUT_OK && v->outcome != KVR_OUT_UNSUPPORTED;
    if (!p->out)
        return;
    if (!p->bar || v->outcome != KVR_OUT_OK) {
        clear_bar(p);
        print_cell(p, c, v);
    }
    kvr_progress_tick(p);
}

void kvr_progress_end(struct kvr_progress *p)
{
    if (!p->out)
        return;
    clear_bar(p);
    fflush(p->out);
}
