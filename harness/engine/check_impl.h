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
    int64_t chunk_kv;    /* number of elements of a chunk's keys in one layer */
    const char *test;    /* name of the current test, such as "a": the check compares the network's
                          * intermediate tensors (kvr_dit_tap) with the recorded tensors of this
                          * test. NULL: it ignores the intermediate tensors */
    enum kvr_status tap_status;
};

/* Opens the device and the model of folder k->dir, both as k->how selects, and the diffusion
 * transformer k->d with the model's weights. k->scheme is the method F32 or BF16, which stores keys
 * and values without compression. */
enum kvr_status kvr_checker_open(struct kvr_checker *k);
/* Closes all objects of `k`, including k->file. Computes the result of the report if st is KVR_OK,
 * otherwise frees the report. Returns st. */
enum kvr_status kvr_checker_close(struct kvr_checker *k, enum kvr_status st);

/* Compares x [n] with the tensor `name` of k->file, if the file has it. A second comparison with
 * the same tensor is ignored. In BF16, kvr_checker_compare uses the BF16 tolerance, and
 * kvr_checker_compare_table the F32 tolerance, for tensors computed without linear layers. */
enum kvr_status kvr_checker_compare(struct kvr_checker *k, const char *name, const float *x,
                                    int64_t n);
enum kvr_status kvr_checker_compare_table(struct kvr_checker *k, const char *name, const float *x,
                                          int64_t n);
/* Compares x [n] with the tensor `golden`, and adds the entry `name` to the report. */
enum kvr_status kvr_checker_compare_as(struct kvr_checker *k, const char *name, const float *x,
                                       int64_t n, const struct kvr_tensor *golden);
/* Like kvr_checker_compare, for the tensor "TEST.PART", where TEST is `test` and PART is `part`. */
enum kvr_status kvr_checker_compare_part(struct kvr_checker *k, const char *test, const char *part,
                                         const float *x, int64_t n);
/* Returns in *out a recorded tensor of exactly n floats, which k->file owns. */
enum kvr_status kvr_checker_input(const struct kvr_checker *k, const char *name, int64_t n,
                                  const float **out);
/* Adds an entry with status KVR_CHECK_UNKNOWN for each tensor of k->file that was not compared,
 * except for the tensors in the NULL-terminated list `inputs`. */
enum kvr_status kvr_checker_note_rest(struct kvr_checker *k, const char *const *inputs);

/* Opens a KV cache of the model's shape for n_frames frames. If `window` is 0, no frame is
 * evicted. */
enum kvr_status kvr_checker_open_cache(struct kvr_checker *k, const struct kvr_scheme *scheme,
                                       struct kvr_cache **out, int n_frames, int window, int sink);
/* Runs one forward pass with input and output in host memory. `work` is device memory for two
 * chunks of latents. */
enum kvr_status kvr_checker_forward(struct kvr_checker *k, struct kvr_cache *cache, const float *x,
                                    const float *t, const struct kvr_pass *pass, float *work,
                                    float *out);

/* For a model that generates several shots, kvr_check_shots compares results with
 * golden.safetensors. kvr_check_unipc compares the UniPC solver's sigmas, timesteps and samples
 * with unipc.safetensors. */
enum kvr_status kvr_check_shots(struct kvr_checker *k);
enum kvr_status kvr_check_unipc(struct kvr_checker *k);
/* Opens the folder's model merged with lora.pt or lora.safetensors, and compares it with
 * lora_golden.safetensors. */
enum kvr_status kvr_check_lora(struct kvr_checker *k);

#endif
