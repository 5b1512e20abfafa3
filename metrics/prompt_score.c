/* prompt_score.c - agreement of the video with its prompt, judged by a small network
 * (clip_probe.h).
 *
 *     value of chunk c = mean over shape, colour, motion, ground and its colour of the probability
 *                        of the prompt's word, from the window of frames that ends with c
 *
 * A chunk's value is assigned to each of its frames. Chunks before the first complete window have
 * no value. If the prompt's motion changes within a chunk's window, the mean excludes motion.
 * `extra` is the network's accuracy: the fraction of the prompt's words, over all chunks, to which
 * the network assigns the highest probability. The metric needs no reference video, so a video that
 * differs from BF16's can have the same score. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/clip_probe.h"
#include "metrics/frames.h"

static const char *prompt_word(const struct kvr_metric_prompt *p, int chunk, int slot)
{
    return slot >= 0 && slot < p->n_slots ? p->word[chunk * p->n_slots + slot] : "";
}

/* Returns the class that classifier head h should predict for this chunk: the index i of the word
 * h->word[i] that is in the prompt. Returns -1 if the prompt has no such word. */
static int n_wanted(const struct kvr_metric_prompt *p, const struct kvr_clip_head *h, int chunk)
{
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < h->n_classes; i++)
            if (h->slot[s] >= 0 && strcmp(h->word[i], prompt_word(p, chunk, h->slot[s])) == 0)
                return i;
    return -1;
}

/* Returns the number of classifier heads that scored the chunk. If it is 0, *value is NAN. */
static int score_chunk(const struct kvr_clip_probe *net, const struct kvr_metric_input *in,
                       const float *seen, int chunk, double *value, double *right)
{
    const int first = chunk + 1 - net->window / in->chunk;
    double sum = 0;
    int n = 0;

    for (int h = 0; h < KVR_CLIP_HEADS; h++) {
        const int want = n_wanted(in->prompt, &net->head[h], chunk);
        float share[KVR_CLIP_CLASSES];
        int best = 0;

        if (want < 0 || (net->head[h].moves && n_wanted(in->prompt, &net->head[h], first) != want))
            continue;
        kvr_clip_probe_read(net, seen + (size_t)first * (size_t)in->chunk * KVR_CLIP_SEEN, h,
                            share);
        for (int i = 1; i < net->head[h].n_classes; i++)
            best = share[i] > share[best] ? i : best;
        sum += (double)share[want];
        *right += best == want;
        n++;
    }
    *value = n ? sum / n : NAN;
    return n;
}

static enum kvr_status over_chunks(const struct kvr_clip_probe *net,
                                   const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const int n = in->test->n, first = net->window / in->chunk - 1;
    float *seen = malloc((size_t)n * KVR_CLIP_SEEN * sizeof *seen);
    double right = 0;
    int asked = 0;

    out->series = malloc((size_t)n * sizeof *out->series);
    if (!seen || !out->series) {
        free(seen);
        return kvr_fail(KVR_ENOMEM, "prompt_score: out of memory while allocating %d frames", n);
    }
    out->n_series = n;
    out->first = first * in->chunk;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++)
        kvr_clip_probe_frame(net, kvr_frame_at(in->test, i), seen + (size_t)i * KVR_CLIP_SEEN);
    for (int i = 0; i < out->first; i++)
        out->series[i] = NAN;
    for (int c = first; c < n / in->chunk; c++) {
        double v = NAN;
        const int n_heads = score_chunk(net, in, seen, c, &v, &right);

        if (n_heads == 0 && !out->missing[0])
            snprintf(out->missing, sizeof out->missing,
                     "the prompt of chunk %d has no word that the model's probe network classifies",
                     c);
        asked += n_heads;
        for (int i = c * in->chunk; i < (c + 1) * in->chunk; i++)
            out->series[i] = v;
        out->value += v / (n / in->chunk - first);
    }
    out->extra = asked ? right / asked : NAN;
    free(seen);
    return KVR_OK;
}

static enum kvr_status compute(const struct kvr_metric_input *in, struct kvr_metric_value *out)
{
    const struct kvr_frames *f = in->test;
    struct kvr_clip_probe net;
    struct kvr_st *weights;
    enum kvr_status st;

    if (!in->prompt || !in->prompt->probe) {
        snprintf(out->missing, sizeof out->missing, "no network that scores prompts: %s",
                 in->prompt
                     ? "the model's folder has no probe.safetensors"
                     : "the video's prompt in the words of the model's vocabulary is unknown");
        return KVR_OK;
    }
    KVR_TRY(kvr_st_open(&weights, in->prompt->probe));
    st = kvr_clip_probe_open(&net, weights);
    if (st == KVR_OK && (f->height != KVR_CLIP_SIZE || f->width != KVR_CLIP_SIZE))
        snprintf(out->missing, sizeof out->missing,
                 "prompt_score needs frames of %dx%d, but the video has %dx%d", KVR_CLIP_SIZE,
                 KVR_CLIP_SIZE, f->width, f->height);
    else if (st == KVR_OK && in->lead)
        snprintf(out->missing, sizeof out->missing,
                 "prompt_score needs chunks of equal length, but the first is %d frames shorter",
                 in->lead);
    else if (st == KVR_OK && (in->chunk < 1 || net.window % in->chunk || f->n % in->chunk))
        snprintf(out->missing, sizeof out->missing,
                 "need a chunk length that divides both %d and the video's %d frames, but a chunk "
                 "has %d frames",
                 net.window, f->n, in->chunk);
    else if (st == KVR_OK && f->n / in->chunk > in->prompt->n_chunks)
        snprintf(out->missing, sizeof out->missing,
                 "the video has %d chunks, but the prompt has words for only %d chunks",
                 f->n / in->chunk, in->prompt->n_chunks);
    else if (st == KVR_OK && f->n < net.window)
        snprintf(out->missing, sizeof out->missing,
                 "prompt_score needs at least %d frames, but the video has %d", net.window, f->n);
    else if (st == KVR_OK)
        st = over_chunks(&net, in, out);
    kvr_st_close(&weights);
    return st;
}

const struct kvr_metric kvr_metric_prompt_score = {
    .name = "prompt_score",
    .title = "mean probability that a small network gives to the prompt's words",
    .unit = "1",
    .direction = +1,
    .lo = 0.0,
    .hi = 1.0,
    .version = 1,
    .alone = true,
    .source = "kvreel; models/nano/probe.py trains the network",
    .compute = compute,
};
