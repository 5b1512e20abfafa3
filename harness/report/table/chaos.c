/* chaos.c - see chaos.h. */
#include "harness/report/table/chaos.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/core/memtext.h"

static double number(const struct kvr_table *t, int column)
{
    return t->n_rows ? kvr_table_number(t, 0, column) : NAN;
}

enum kvr_status kvr_chaos_margin(double *out, const char *db_path, const char *metric)
{
    struct kvr_table *t;
    char sql[128];

    *out = NAN;
    snprintf(sql, sizeof sql, "SELECT margin FROM chaos_margin WHERE name = '%.48s'", metric);
    KVR_TRY(kvr_table_query(&t, db_path, sql, NULL));
    *out = number(t, 0);
    kvr_table_close(&t);
    return KVR_OK;
}

static enum kvr_status note_floor(struct kvr_table *to, const struct kvr_table *f)
{
    const bool psnr = isfinite(number(f, 3)), ssim = isfinite(number(f, 4));
    char *text = NULL;
    size_t n;
    FILE *out = kvr_text_open(&text, &n); /* "%.1f" of a stored value has up to 311 characters */
    enum kvr_status st;

    if (out) {
        fprintf(out,
                "chaos floor: BF16's reruns with noise perturbed by 2^-%.0f (%.0f reruns of %.0f "
                "prompts) have",
                number(f, 0), number(f, 1), number(f, 2));
        if (psnr)
            fprintf(out, " a PSNR of %.1f dB", number(f, 3));
        if (ssim)
            fprintf(out, "%s an SSIM of %.5f", psnr ? " and" : "", number(f, 4));
        fputs(" to BF16 without perturbation; methods that are closer to BF16 cannot be "
              "distinguished from it",
              out);
    }
    st = kvr_text_close(out, &text) ? kvr_table_note(to, text)
                                    : kvr_fail(KVR_ENOMEM, "report: out of memory");
    free(text);
    return st;
}

enum kvr_status kvr_chaos_two_videos(char *out, size_t n, const char *db_path)
{
    struct kvr_table *t;

    KVR_TRY(kvr_table_query(&t, db_path,
                            "SELECT count(*), group_concat(prompt_id || ' (' || round(lowest, 1) ||"
                            " ' dB)', ', ') FROM (SELECT prompt_id, min(lowest) AS lowest FROM "
                            "chaos_floor WHERE name = 'psnr' AND lowest < " KVR_TWO_VIDEOS_DB
                            " GROUP BY suite, prompt_id ORDER BY lowest)",
                            NULL));
    snprintf(out, n, "%s", number(t, 0) > 0 ? kvr_table_text(t, 0, 1) : "");
    kvr_table_close(&t);
    return KVR_OK;
}

static enum kvr_status note_two_videos(struct kvr_table *to, const char *db_path)
{
    char who[400], text[640];

    KVR_TRY(kvr_chaos_two_videos(who, sizeof who, db_path));
    if (!who[0])
        return KVR_OK;
    snprintf(text, sizeof text,
             "prompts whose BF16 reruns with perturbed noise diverge from the BF16 rollout, so "
             "their fidelity is unreliable (in parentheses: lowest PSNR of a rerun): %s",
             who);
    return kvr_table_note(to, text);
}

enum kvr_status kvr_chaos_note(struct kvr_table *t, const char *db_path)
{
    struct kvr_table *f;
    enum kvr_status st;

    KVR_TRY(kvr_table_query(&f, db_path,
                            "SELECT max(moved_bits), sum(draws) FILTER (WHERE name = 'psnr'),\n"
                            "  sum(prompts) FILTER (WHERE name = 'psnr'),\n"
                            "  avg(mean) FILTER (WHERE name = 'psnr'),\n"
                            "  avg(mean) FILTER (WHERE name = 'ssim'),\n"
                            "  (SELECT count(*) FROM metric WHERE name IN ('psnr', 'ssim') AND "
                            "value IS NOT NULL)\n"
                            "FROM floor WHERE forcing = 'none'",
                            NULL));
    if (number(f, 1) > 0)
        st = note_floor(t, f);
    else if (number(f, 5) > 0)
        st = kvr_table_note(t, "no BF16 reruns with perturbed noise exist, so the chaos "
                               "floor is unknown; set `control: 4` in the sweep");
    else
        st = KVR_OK;
    kvr_table_close(&f);
    return st == KVR_OK ? note_two_videos(t, db_path) : st;
}
