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
 *     forward.safetensors      single forwards a, b, c, d with intermediate tensors
 *     loop.safetensors         whole rollouts: global, roll_w{window}_s{sink}
 *     golden.safetensors       model with shots: forwards a, b, c, loops plain, shots, shots_nosink
 *     lora_golden.safetensors  forward `a` of a model with shots, with lora.pt merged
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
    KVR_CHECK_UNKNOWN,   /* kvreel does not know a tensor of the recorded name */
};

struct kvr_check_entry {
    char name[96];
    double rel_l2;  /* ||x - golden|| / ||golden||, or NaN if no values were compared */
    double max_abs; /* largest |x - golden| */
    enum kvr_check_status status;
    char note[160]; /* reason why the comparison failed or was skipped, or the PSNR of decoded
                     * pixels; "" without a note */
};

struct kvr_check_report {
    struct kvr_check_entry *entries;
    int n, cap;
    bool ok; /* at least one tensor was compared, and no comparison failed */
};

/* The device and the compute type that the check uses. */
struct kvr_check_how {
    const char *device;     /* device name (harness/device/names.h); NULL: the CPU */
    enum kvr_dtype compute; /* compute type of linear layers, KVR_F32 or KVR_BF16; the decoder's
                             * check always decodes in F32, and with KVR_BF16 decodes in BF16 too */
};

/* Compares all recorded tensors of the folder; if `how` is NULL, the engine computes in F32 on the
 * CPU. Returns KVR_OK if the comparison could be made, even if tensors differ. After any other
 * status the report is empty. */
enum kvr_status kvr_engine_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* Compares rollouts of P prompts with the rollouts recorded in a model folder's golden.safetensors.
 * The file has the tensors prompt_tokens [P,T] I64, noise [P, chunks, steps, F, C, H, W] and frames
 * [P, chunks * F, C, H, W]. F is the number of frames per chunk, and T is the text length. Step 0
 * of `noise` is the initial noise. Step s > 0 is the noise that the sampler adds to x0, the clean
 * latents predicted in step s - 1. In F32 the report gets the entries "prompt{p}.frames" for all
 * chunks and "prompt{p}.first" for the first two chunks. The relative L2 tolerance for all chunks
 * is "rel_l2_all" of golden.json, by default 5e-3. The relative L2 tolerance for the first two
 * chunks (6 frames) is "rel_l2_first6" of golden.json, by default 1e-3. In BF16 only the first
 * chunk is compared, as "prompt{p}.first" with a tolerance of at least 1.9e-2, because later chunks
 * diverge. */
enum kvr_status kvr_golden_check(struct kvr_check_report *out, const char *dir,
                                 const struct kvr_check_how *how);

/* Sets r->ok to whether at least one tensor was compared and no comparison failed. */
void kvr_check_conclude(struct kvr_check_report *r);
/* Appends the entries of the report `more` to the report r. */
enum kvr_status kvr_check_append(struct kvr_check_report *r, const struct kvr_check_report *more);
/* Whether the folder has at least one of the recorded files that kvr_engine_check reads. */
bool kvr_engine_check_has_files(const char *dir);
void kvr_check_report_free(struct kvr_check_report *r);
const char *kvr_check_status_name(enum kvr_check_status s); /* name of the status, such as "not
                                                             * built" */

#ifdef __cplusplus
}
#endif
#endif
