/* check.h - compares the engine's results with recorded tensors.
 *
 *     struct kvr_check_report r;
 *     KVR_TRY(kvr_engine_check(&r, "tests/fixtures/wan_tiny", NULL));
 *     for (int i = 0; i < r.n; i++)
 *         ... r.entries[i].name, .rel_l2, .status ...
 *     r.ok: at least one tensor was compared, and no comparison failed
 *     kvr_check_report_free(&r);
 *
 * The checked folder has config.json and dit.safetensors, and at least one of these files of
 * recorded tensors:
 *
 *     scheduler.safetensors    timesteps and sigmas of the sampler
 *     forward.safetensors      forward passes a, b, c, d with intermediate tensors
 *     loop.safetensors         whole rollouts: global, roll_w{window}_s{sink}
 *     golden.safetensors       model with shots: forward passes a, b, c; rollouts plain, shots,
 *                              shots_nosink
 *     lora_golden.safetensors  forward pass `a` of a model with shots, with lora.pt merged
 *     unipc.safetensors        sigmas, timesteps and samples of the UniPC solver
 *
 * Decoder and text encoder have separate checks (vae/check_vae.h, text/check_text.h). Tensor sizes
 * come from the model's configuration and from the recorded files. In F32, with an exact KV cache
 * (method F32), a tensor passes if its relative L2 error is at most 1e-5 and its largest absolute
 * error at most 1e-4. In BF16, only the relative L2 error is limited: to 1.2e-2 for latents, x0 and
 * flow (the network's output), and to 1.5e-2 for other tensors computed by linear layers. Tensors
 * computed without linear layers, such as timesteps, have the F32 tolerance in BF16 too. */
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
    KVR_CHECK_NOT_BUILT, /* this build of kvreel cannot compute the recorded tensor */
    KVR_CHECK_UNKNOWN,   /* the file has a tensor whose name kvreel does not know */
};

struct kvr_check_entry {
    char name[96];
    double rel_l2;  /* relative L2 error ||x - golden|| / ||golden|| of the engine's tensor x, where
                     * `golden` is the recorded tensor; NaN if no values were compared */
    double max_abs; /* largest absolute error |x - golden| */
    enum kvr_check_status status;
    char note[160]; /* reason why the comparison failed or was skipped, or the PSNR of decoded
                     * frames relative to the recorded frames; "" without a note */
};

struct kvr_check_report {
    struct kvr_check_entry *entries;
    int n, cap;
    bool ok; /* at least one tensor was compared, and no comparison failed */
};

/* The device and the compute type that the check uses. */
struct kvr_check_how {
    const char *device;     /* device name (harness/device/names.h); NULL: the CPU */
    enum kvr_dtype compute; /* compute type of linear layers, KVR_F32 or KVR_BF16. The VAE
                             * decoder is always checked in F32; KVR_BF16 adds a check in BF16 */
};

/* Compares all recorded tensors of the folder `dir`; if `how` is NULL, the engine computes in F32
 * on the CPU. Returns KVR_OK if the comparison could be made, even if tensors differ. After any
 * other status the report is empty. */
enum kvr_status kvr_engine_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* Compares rollouts of P prompts with the rollouts recorded in a model folder's golden.safetensors.
 * The file has the tensors prompt_tokens [P,T] I64, noise [P, chunks, steps, F, C, H, W] and frames
 * [P, chunks * F, C, H, W]. T is the text length in tokens, `steps` the number of denoising steps,
 * F the number of latent frames per chunk, and [C,H,W] the shape of a latent frame. Step 0 of
 * `noise` is the initial noise. Step s > 0 is the noise that the sampler adds to x0, the clean
 * latents predicted in step s - 1. If the engine computes in F32, the report gets two entries for
 * each prompt p: "prompt{p}.frames" for all chunks and "prompt{p}.first" for the first two chunks.
 * The file golden.json may set their relative L2 tolerances: "rel_l2_all" for all chunks (default
 * 5e-3), and "rel_l2_first6" for the 6 frames of the first two chunks (default 1e-3). If the engine
 * computes in BF16, the report gets only "prompt{p}.first", which then compares only the first
 * chunk, because later chunks diverge. Its tolerance is the maximum of "rel_l2_first6" and
 * 1.9e-2. */
enum kvr_status kvr_golden_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* Sets r->ok to whether at least one tensor was compared and no comparison failed. */
void kvr_check_conclude(struct kvr_check_report *r);
/* Appends the entries of the report `more` to the report r. */
enum kvr_status kvr_check_append(struct kvr_check_report *r, const struct kvr_check_report *more);
/* Whether the folder `dir` has a file of recorded tensors that kvr_engine_check reads. */
bool kvr_engine_check_has_files(const char *dir);
void kvr_check_report_free(struct kvr_check_report *r);
const char *kvr_check_status_name(enum kvr_check_status s); /* name of the status, such as "not
                                                             * built" */

#ifdef __cplusplus
}
#endif
#endif
