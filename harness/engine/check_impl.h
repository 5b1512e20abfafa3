/* check_impl.h - functions shared by the checks of `kvreel engine check`. Private to
 * harness/engine. */
#ifndef KVR_ENGINE_CHECK_IMPL_H
#define KVR_ENGINE_CHECK_IMPL_H

#include "harness/engine/check_report.h"
#include "harness/engine/sampler.h"

struct kvr_checker {
    const char *dir;
    struct kvr_check_how how;
    struct kvr_check_report *report;
    struct kvr_dev *dev;
    struct kvr_model *m;
    const struct kvr_model_config *c;
    struct kvr_dit *d;
    struct kvr_scheme *scheme;
    struct kvr_schedule schedule;
    struct kvr_st *file; /* recorded tensors, which are compared with the engine's results */
    int64_t chunk_elems; /* number of elements of a chunk's latents */
    int64_t chunk_kv;    /* number of elements of one layer's keys (or values) for one chunk */
    const char *test;    /* name of the recorded forward pass, such as "a", with whose tensors the
                          * check compares the network's intermediate tensors; NULL: the check
                          * ignores intermediate tensors */
    enum kvr_status tap_status;
};

/* Opens the device k->how.device, the model k->m in the folder k->dir, and k->d, the model's
 * diffusion transformer. Opens as k->scheme the method that stores keys and values in the type
 * k->how.compute, F32 or BF16, without compression. */
enum kvr_status kvr_checker_open(struct kvr_checker *k);
/* Closes all objects of `k`, including k->file. `st` is the status of the check. If `st` is KVR_OK,
 * calls kvr_check_conclude, which sets the report's field `ok`; otherwise frees the report. Returns
 * st. */
enum kvr_status kvr_checker_close(struct kvr_checker *k, enum kvr_status st);

/* Compares x [n] with the tensor `name` of k->file, if the file has it. A second comparison with
 * the same tensor is ignored. kvr_checker_compare applies the tolerance that check.h states for the
 * compute type k->how.compute. kvr_checker_compare_table always applies the F32 tolerance; it is
 * for tensors that are computed without linear layers, such as timesteps. */
enum kvr_status kvr_checker_compare(struct kvr_checker *k, const char *name, const float *x,
                                    int64_t n);
enum kvr_status kvr_checker_compare_table(struct kvr_checker *k, const char *name, const float *x,
                                          int64_t n);
/* Compares x [n] with the recorded tensor `golden`, and reports the result as entry `name`. */
enum kvr_status kvr_checker_compare_as(struct kvr_checker *k, const char *name, const float *x,
                                       int64_t n, const struct kvr_tensor *golden);
/* Like kvr_checker_compare, for the tensor "TEST.PART", where TEST is `test` and PART is `part`. */
enum kvr_status kvr_checker_compare_part(struct kvr_checker *k, const char *test, const char *part,
                                         const float *x, int64_t n);
/* Sets *out to the n values of the recorded F32 tensor `name`. k->file owns the values. Returns an
 * error if the tensor does not have exactly n values. */
enum kvr_status kvr_checker_input(const struct kvr_checker *k, const char *name, int64_t n,
                                  const float **out);
/* Adds an entry with status KVR_CHECK_UNKNOWN for each tensor of k->file that was not compared,
 * except for the tensors in the NULL-terminated list `inputs`. */
enum kvr_status kvr_checker_note_rest(struct kvr_checker *k, const char *const *inputs);

/* Opens a KV cache for rollouts of n_frames latent frames of the model. `window` and `sink` are
 * window_frames and sink_frames of struct kvr_cache_shape. If `window` is 0, attention sees all
 * frames, and no frame is evicted. */
enum kvr_status kvr_checker_open_cache(struct kvr_checker *k, const struct kvr_scheme *scheme,
                                       struct kvr_cache **out, int n_frames, int window, int sink);
/* Runs one forward pass with input and output in host memory. `work` is device memory for two
 * chunks of latents. */
enum kvr_status kvr_checker_forward(struct kvr_checker *k, struct kvr_cache *cache, const float *x,
                                    const float *t, const struct kvr_pass *pass, float *work,
                                    float *out);

/* Compares forward passes and rollouts with golden.safetensors, for a model that generates several
 * shots: runs of chunks that share a prompt. */
enum kvr_status kvr_check_shots(struct kvr_checker *k);
/* Compares the UniPC solver's sigmas, timesteps and samples with unipc.safetensors. */
enum kvr_status kvr_check_unipc(struct kvr_checker *k);
/* Opens the model, and merges the LoRA adapter in lora.pt or lora.safetensors of the folder k->dir
 * into the model's weights. Runs a forward pass with the input latents a.x of golden.safetensors,
 * and compares the network's output with lora_golden.safetensors. */
enum kvr_status kvr_check_lora(struct kvr_checker *k);

#endif
