/* model.h - opens a model folder, which has config.json, the weights and, for models with their own
 * vocabulary, prompt_table.safetensors. The weights are the first of these files that exists:
 * dit.safetensors, dit.pt, self_forcing_dmd.pt, generator.pt, model_bf16.pt, longlive_base.pt,
 * diffusion_pytorch_model.safetensors. The supported formats and tensor names are listed in
 * docs/weights.md.
 *
 *     struct kvr_model *m;
 *     KVR_TRY(kvr_model_open(&m, dev, "models/nano"));
 *     ... m->config.n_layers ...
 *     kvr_model_close(&m);
 *
 * Latents are decoded by Wan2.1_VAE.pth (or Wan2.2_VAE.pth, vae.pth, vae.safetensors) in the
 * folder. The tiny decoder taew2_1.pth (or taew2_1.safetensors) is used only if
 * kvr_model_use.decoder selects it. kvreel sets the keys that are missing in Wan's own config.json
 * (_class_name WanModel) to Self-Forcing's values.
 *
 * A config.json with model_type "llama" describes a language model (lm.h), whose weights are in the
 * GGUF file that config.json names.
 *
 * Every size comes from config.json and is checked against the tensors' shapes. If config.json
 * requests random weights, the folder needs no other file. The model's output is then noise, but a
 * forward takes the time and memory of a real model (draw.h). */
#ifndef KVR_ENGINE_MODEL_H
#define KVR_ENGINE_MODEL_H

#include "harness/core/safetensors.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_predicts { KVR_PREDICT_FLOW, KVR_PREDICT_X0 };

enum { KVR_MAX_STEPS = 64 };

/* The method that computes the sample of the next denoising step: re-noising, or the UniPC solver
 * (unipc.h). */
enum kvr_sampler { KVR_SAMPLER_RENOISE, KVR_SAMPLER_UNIPC };

enum kvr_timesteps { KVR_TIMESTEPS_WARPED, KVR_TIMESTEPS_LISTED, KVR_TIMESTEPS_WHOLE };

struct json_t; /* jansson */

struct kvr_model_config {
    int dim, ffn_dim, freq_dim, text_dim, text_len;
    int in_dim, out_dim, n_heads, n_layers; /* dim / n_heads: channels of a head */
    int patch_h, patch_w;                   /* height and width of a DiT patch, in latent pixels;
                                             * the temporal patch size is 1 */
    double eps;
    int latent_h, latent_w;
    int frames_per_chunk;
    enum kvr_sampler sampler;
    double timestep_shift;
    int n_steps;
    double steps[KVR_MAX_STEPS];  /* noise level of each denoising step before the shift, in 1/1000,
                                   * such as 750; unused by UniPC */
    enum kvr_timesteps timesteps; /* rule that maps each entry of `steps` to a timestep, an input of
                                   * the network (schedules.def) */
    bool rounded_timesteps;       /* whether timesteps are rounded to BF16 if the network's compute
                                   * type is BF16 */
    double context_timestep;
    enum kvr_predicts prediction;
    bool latent_is_rgb; /* whether latents are RGB frames, which need no decoder and are clamped to
                         * [latent_lo, latent_hi] */
    float latent_lo, latent_hi;
    int window_frames;  /* default attention window in frames, or 0 if all frames are visible */
    int sink_frames;    /* default sink size: number of first frames that stay visible outside of
                         * the window */
    double shot_offset; /* number of frames that each prompt change adds to the temporal RoPE
                         * positions of all following chunks */
    struct kvr_lora_config {
        char *file; /* name of the LoRA file in the model's folder; NULL: no LoRA */
        int rank;
        double alpha;
    } lora;
    int n_vocabulary;    /* length of `vocabulary`; if 0, prompts are given as text embeddings
                          * instead of vocabulary ids */
    char **vocabulary;   /* index = id */
    bool random_weights; /* whether weights and prompt embeddings are generated at random from
                          * weights_seed (draw.h) */
    uint64_t weights_seed;
    /* Fields of language models (lm.h), which treat one token as one frame. For video models, these
     * fields are false, 0 or NULL. */
    bool is_lm;
    int n_kv_heads, vocabulary_size, context_length;
    double rope_base;
    char *gguf;  /* name of the GGUF file in the folder */
    char *fetch; /* shell command that downloads the GGUF file, shown in error messages; NULL if
                  * none */
};

/* Reads and checks a config.json; kvr_model_config_free frees the strings of `c`. */
enum kvr_status kvr_model_config_read(struct kvr_model_config *c, const char *path);
void kvr_model_config_free(struct kvr_model_config *c);
/* If `root` is the config.json published with Wan (its key _class_name is "WanModel"), adds the
 * keys that kvreel needs and this file lacks, with the values of Self-Forcing for videos of 480x832
 * pixels. */
enum kvr_status kvr_model_config_fill(struct json_t *root, const char *path);

/* Names of the samplers: "model" (the model's own), "renoise" and "unipc"; NULL-terminated. */
extern const char *const kvr_sampler_names[];
/* Returns true if `text` names UniPC with a number of steps, as in "unipc:8", and optionally a
 * timestep shift, as in "unipc:8:3". Other spellings of the same numbers, such as "unipc:08", are
 * rejected. */
bool kvr_sampler_is_spelt(const char *text);
/* Replaces the configuration's sampler by `name`. Returns KVR_EINVAL if the name is unknown. A
 * language model supports only the name "model"; other names give KVR_EUNSUPPORTED. The name
 * "renoise" also gives KVR_EUNSUPPORTED if the configuration lists no denoising steps (`steps`). */
enum kvr_status kvr_sampler_choose(struct kvr_model_config *c, const char *name);

/* The names of all schedules, which are "model" for the model's own schedule and the names in
 * schedules.def. The list is NULL-terminated. */
extern const char *const kvr_schedule_names[];
/* Returns true if `text` is a list of denoising steps, such as "1000-600-250", optionally preceded
 * by a timestep shift, as in "8:1000-750". Each step is a noise level times 1000, at most 1000, and
 * less than the step before. Without a shift in `text`, the model's shift applies. Other spellings
 * of the same numbers are rejected, so that each schedule has only one name. */
bool kvr_schedule_is_list(const char *text);
/* Replaces the configuration's schedule by `name`, which is a name of kvr_schedule_names or a list
 * of steps. Returns KVR_EINVAL if `name` is neither a known name nor a list. Returns
 * KVR_EUNSUPPORTED for a language model, unless `name` is "model". */
enum kvr_status kvr_schedule_choose(struct kvr_model_config *c, const char *name);

/* The decoders of Wan's latents are Wan's VAE ("vae") and the tiny decoder TAEHV ("taehv"). The
 * list kvr_decoder_names is NULL-terminated. */
enum kvr_decoder_kind { KVR_DECODER_VAE, KVR_DECODER_TAEHV, KVR_N_DECODERS };
extern const char *const kvr_decoder_names[];
/* If `name` is unknown, returns KVR_EINVAL with an error message that lists the known decoders. */
enum kvr_status kvr_decoder_parse(const char *name, enum kvr_decoder_kind *out);

/* Paths of the files in a model folder, malloc'ed. If a required file is missing, its path is the
 * expected path. A path is NULL if the model does not need that file. */
struct kvr_model_paths {
    char *weights, *table, *vae; /* table: prompt_table.safetensors */
};
enum kvr_status kvr_model_paths(const char *dir, const struct kvr_model_config *c,
                                enum kvr_decoder_kind decoder, struct kvr_model_paths *out);
void kvr_model_paths_free(struct kvr_model_paths *p);

struct kvr_model; /* an open model: configuration and weights */

enum kvr_status kvr_model_open(struct kvr_model **out, struct kvr_dev *dev, const char *dir);
void kvr_model_close(struct kvr_model **m);
/* Frees the weights of the model; its configuration, paths and hash stay available. */
void kvr_model_shed(struct kvr_model *m);

/* Options for opening a model folder. */
struct kvr_model_use {
    const char *schedule;  /* name of the denoising schedule (kvr_schedule_choose); if NULL, the
                            * model's own schedule is used */
    const char *sampler;   /* name of the sampler (kvr_sampler_choose), which may replace the
                            * schedule's number of steps and shift; if NULL, the model's own sampler
                            * is used */
    const char *lora;      /* LoRA file used instead of the configuration's; if NULL, the
                            * configuration's LoRA file, if any, is used */
    int n_layers, n_steps; /* use only the first n_layers layers and the first n_steps denoising
                            * steps; 0: use all; a smaller number than the model's requires random
                            * weights */
    bool look;             /* read the configuration and the weights' names and shapes, and
                            * compute the hash, but load no weights: no forward can run */
    bool plan;             /* for memory plans: accept missing weight files, and do not hash large
                            * files; requires the option `look` */
    enum kvr_decoder_kind decoder;  /* decoder of the latents; only the file of the default,
                                     * KVR_DECODER_VAE (0), may be missing */
    enum kvr_dtype decoder_compute; /* compute type of the decoder, KVR_F32 (0) or KVR_BF16; TAEHV
                                     * always computes in F32 */
    enum kvr_dtype compute;         /* compute type of linear layers (gemm.h), KVR_F32 (0) or
                                     * KVR_BF16 */
    bool tune;                      /* autotune linear layers (kvr_gemm_tune) */
    const char *stamp, *sha256;     /* results of kvr_model_stamp and kvr_model_sha256 from an
                                     * earlier opening, or NULL; if the files still have this stamp,
                                     * they are not hashed again, and the model's hash is
                                     * `sha256` */
};
/* Opens a model folder. The model's hash covers config.json, the weights, the LoRA file, the prompt
 * table and the decoder's file. Weights are copied to `dev` tensor by tensor; prompt tables stay in
 * host memory. Returns KVR_EINVAL if the model has fewer layers or steps than requested, or latents
 * that the decoder does not support. Returns KVR_ENOTFOUND if the decoder's file is missing. */
enum kvr_status kvr_model_open_as(struct kvr_model **out, struct kvr_dev *dev, const char *dir,
                                  const struct kvr_model_use *use);

const struct kvr_model_config *kvr_model_config(const struct kvr_model *m);
bool kvr_model_is_lm(const struct kvr_model *m);
enum kvr_dtype kvr_model_compute(const struct kvr_model *m);
const char *kvr_model_library(const struct kvr_model *m); /* kvr_gemm_library */
const char *kvr_model_tuned(const struct kvr_model *m);   /* kvr_gemm_tuned */
const char *kvr_model_sha256(const struct kvr_model *m);  /* the model's hash in hexadecimal */
/* Whether the model was opened without its weight file or its LoRA file, which only the option
 * `plan` permits. */
bool kvr_model_absent(const struct kvr_model *m);
const char *kvr_model_vae(const struct kvr_model *m); /* path of the decoder's file, or NULL if the
                                                       * file is missing or the model needs no
                                                       * decoder */
enum kvr_decoder_kind kvr_model_decoder(const struct kvr_model *m); /* kind of the decoder */
enum kvr_dtype kvr_model_decoder_compute(const struct kvr_model *m);
/* Returns a hex digest of the inodes, sizes and timestamps of the model's files, which stays equal
 * while the files are unchanged. The digest is empty if a timestamp was less than two seconds old,
 * because another write might leave that timestamp unchanged. It is also empty if a file changed
 * while the model was opened. */
const char *kvr_model_stamp(const struct kvr_model *m);
int kvr_model_tokens_per_frame(const struct kvr_model *m);
int kvr_model_head_dim(const struct kvr_model *m);
int64_t kvr_model_frame_elems(const struct kvr_model *m); /* elements per latent frame: in_dim *
                                                           * latent_h * latent_w */

/* Computes the embedding P [text_len, text_dim] of a prompt given as text_len vocabulary ids. Row i
 * of P is token_embedding[ids[i]] + position_embedding[i]. Returns KVR_EUNSUPPORTED for a model
 * without a vocabulary. */
enum kvr_status kvr_model_embed(const struct kvr_model *m, const int *ids, int n_ids, float *P);
/* Generates a random prompt embedding (kvr_draw_prompt) for a model with random weights, from the
 * model's seed and `text`. Returns KVR_EUNSUPPORTED for a model with real weights. */
enum kvr_status kvr_model_draw_prompt(const struct kvr_model *m, const char *text, float *P);

#ifdef __cplusplus
}
#endif
#endif
