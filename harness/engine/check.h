/* check.h - compares the engine with recorded tensors.
 *
 *     struct kvr_check_report r;
 *     KVR_TRY(kvr_engine_check(&r, "tests/fixtures/wan_tiny", NULL));
 *     for (int i = 0; i < r.n; i++)
 *         ... r.entries[i].name, .rel_l2, .status ...
 *     r.ok: something was compared and nothing failed
 *     kvr_check_report_free(&r);
 *
 * A folder laid out like the fixture: config.json, dit.safetensors, and any of
 *
 *   scheduler.safetensors  tables of the sampler.
 *   forward.safetensors    single forwards a, b, c, d with intermediate tensors.
 *   loop.safetensors       whole rollouts: global, roll_w{window}_s{sink}.
 *   golden.safetensors     of a model with shots: forwards a, b, c, loops plain, shots, shots_nosink.
 *   lora_golden.safetensors  its forward `a` with lora.pt merged.
 *   unipc.safetensors      tables and runs of the solver.
 *
 * Decoder and text encoder have separate checks (vae/check_vae.h, text/check_text.h). Sizes come
 * from the configuration and the files. Tolerances in F32, with an exact cache (method F32):
 * relative L2 1e-5, absolute 1e-4. In BF16, relative L2: latents and flow 1.2e-2, other tensors
 * computed by linear layers 1.5e-2, tables as in F32. */
#ifndef KVR_ENGINE_CHECK_H
#define KVR_ENGINE_CHECK_H

#include <stdbool.h>

#include "harness/core/dtype.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_check_status {
    KVR_CHECK_OK,
    KVR_CHECK_FAIL,
    KVR_CHECK_NOT_BUILT, /* the tensor is recorded, but this build cannot compute it */
    KVR_CHECK_UNKNOWN,   /* a tensor whose meaning is not known */
};

struct kvr_check_entry {
    char name[96];
    double rel_l2;  /* ||x - golden|| / ||golden||; NaN when nothing was compared */
    double max_abs; /* largest |x - golden| */
    enum kvr_check_status status;
    char note[160]; /* why the comparison failed or was skipped; a PSNR; "" otherwise */
};

struct kvr_check_report {
    struct kvr_check_entry *entries;
    int n, cap;
    bool ok; /* something was compared and nothing failed */
};

/* Device and arithmetic of the engine. */
struct kvr_check_how {
    const char *device;     /* harness/device/names.h; NULL: the CPU */
    enum kvr_dtype compute; /* compute type of linear layers and of a second decoding: KVR_F32 or
                             * KVR_BF16 */
};

/* how NULL: F32 on the CPU. KVR_OK: the comparison was made, whatever its result. Otherwise the
 * reason why it could not be made, and the report is empty. */
enum kvr_status kvr_engine_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* A model folder with golden.safetensors: prompt_tokens [P,T] I64, noise [P, chunks, steps, frames,
 * C, H, W] (step 0: initial noise, then the re-noising), frames [P, F, C, H, W]. Entries
 * "prompt{p}.frames" and "prompt{p}.first" (two chunks). Relative L2 tolerances come from
 * golden.json {"rel_l2_all", "rel_l2_first6"} if present, else 5e-3 and 1e-3. In BF16 they are at
 * least 2.4e-2 (errors of chunks accumulate; nano has seven) and 1.2e-2. */
enum kvr_status kvr_golden_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* Sets r->ok: something was compared and nothing failed. */
void kvr_check_conclude(struct kvr_check_report *r);
/* Appends the entries of `more` to r. */
enum kvr_status kvr_check_append(struct kvr_check_report *r, const struct kvr_check_report *more);
/* Whether the folder has any of the files that kvr_engine_check reads. */
bool kvr_engine_check_has_files(const char *dir);
void kvr_check_report_free(struct kvr_check_report *r);
const char *kvr_check_status_name(enum kvr_check_status s); /* "ok", "fail", "not built", ... */

#ifdef __cplusplus
}
#endif
#endif
