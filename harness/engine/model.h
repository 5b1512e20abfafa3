/* model.h - a model folder: config.json, the weights and, for models with their own vocabulary,
 * prompt_table.safetensors. Weights are the first existing file of dit.safetensors, dit.pt,
 * self_forcing_dmd.pt, diffusion_pytorch_model.safetensors, in any format and naming of
 * docs/weights.md.
 *
 *     struct kvr_model *m;
 *     KVR_TRY(kvr_model_open(&m, dev, "models/nano"));
 *     ... m->config.n_layers ...
 *     kvr_model_close(&m);
 *
 * Wan2.1_VAE.pth (or vae.pth, vae.safetensors) in the folder is the decoder of its latents;
 * taew2_1.pth (or taew2_1.safetensors) is the tiny decoder, used on request. Missing keys of Wan's
 * own config (_class_name WanModel) get Self-Forcing's values.
 *
 * model_type "llama" is a language model (lm.h), with weights in the GGUF file that the config
 * names.
 *
 * Every size comes from config.json and is checked against the tensors' shapes. A config may
 * request random weights: the folder then needs no other file, and the model generates noise at the
 * real cost (draw.h). */
#ifndef KVR_ENGINE_MODEL_H
#define KVR_ENGINE_MODEL_H

#include "harness/core/safetensors.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_predicts { KVR_PREDICT_FLOW, KVR_PREDICT_X0 };

enum { KVR_MAX_STEPS = 64 };

/* How the sample of the next denoising step is computed: by re-noising, or by the UniPC solver
 * (unipc.h). */
enum kvr_sampler { KVR_SAMPLER_RENOISE, KVR_SAMPLER_UNIPC };

enum kvr_timesteps { KVR_TIMESTEPS_WARPED, KVR_TIMESTEPS_LISTED, KVR_TIMESTEPS_WHOLE };

struct json_t; /* jansson */

struct kvr_model_config {
    int dim, ffn_dim, freq_dim, text_dim, text_len;
    int in_dim, out_dim, n_heads, n_layers; /* head_dim = dim / n_heads */
    int patch_h, patch_w;                   /* the temporal patch is 1 */
    double eps;
    int latent_h, latent_w;
    int frames_per_chunk;
    enum kvr_sampler sampler;
    double timestep_shift;
    int n_steps;
    double steps[KVR_MAX_STEPS]; /* as listed, before the shift: 1000, 750, ...; none under UniPC */
    enum kvr_timesteps timesteps; /* mapping to the network's timesteps (schedules.def) */
    bool rounded_timesteps;       /* rounded to the network's compute type */
    double context_timestep;
    enum kvr_predicts prediction;
    bool latent_is_rgb; /* latents are RGB frames in latent_range: no decoder needed */
    float latent_lo, latent_hi;
    int window_frames;  /* the model's default number of newest visible frames; 0: all */
    int sink_frames;    /* the model's default: first frames that stay visible */
    double shot_offset; /* frames that each cut adds to later time positions */
    struct kvr_lora_config {
        char *file; /* in the model's folder; NULL: no adapter */
        int rank;
        double alpha;
    } lora;
    int n_vocabulary;    /* 0: prompts are embeddings */
    char **vocabulary;   /* index = id */
    bool random_weights; /* weights and prompts are drawn from weights_seed (draw.h) */
    uint64_t weights_seed;
    /* Language models (lm.h), where a frame is one token; false, 0, NULL for others. */
    bool is_lm;
    int n_kv_heads, vocabulary_size, context_length;
    double rope_base;
    char *gguf;  /* file of weights in the folder */
    char *fetch; /* command that fetches the file, for messages; NULL: unknown */
};

/* Reads and checks a config.json. kvr_model_config_free frees the owned strings. */
enum kvr_status kvr_model_config_read(struct kvr_model_config *c, const char *path);
void kvr_model_config_free(struct kvr_model_config *c);
/* Fills keys that are missing in Wan's own config.json (_class_name WanModel) with Self-Forcing's values, at
 * 480x832. */
enum kvr_status kvr_model_config_fill(struct json_t *root, const char *path);

/* "model", "renoise", "unipc"; NULL-terminated. */
extern const char *const kvr_sampler_names[];
/* Whether `text` is UniPC with a number of steps, "unipc:8", and optionally a shift, "unipc:8:3". Only this
 * canonical spelling is accepted. */
bool kvr_sampler_is_spelt(const char *text);
/* Replaces the config's sampler. KVR_EINVAL: unknown name or spelling; KVR_EUNSUPPORTED: a language
 * model, or re-noising with a config that lists no steps. */
enum kvr_status kvr_sampler_choose(struct kvr_model_config *c, const char *name);

/* "model", then the rows of schedules.def; NULL-terminated. */
extern const char *const kvr_schedule_names[];
/* Whether `text` lists a schedule: descending steps of at most 1000, "1000-600-250", with the model's shift, or
 * preceded by a shift, "8:1000-750". Only this canonical spelling is accepted, so that each schedule has one
 * name. */
bool kvr_schedule_is_list(const char *text);
/* Replaces the config's schedule by a named or listed one. KVR_EINVAL: neither; KVR_EUNSUPPORTED: a language
 * model with a schedule other than "model". */
enum kvr_status kvr_schedule_choose(struct kvr_model_config *c, const char *name);

/* The decoder of Wan's latents: Wan's VAE or the tiny TAEHV. "vae", "taehv"; NULL-terminated. */
enum kvr_decoder_kind { KVR_DECODER_VAE, KVR_DECODER_TAEHV, KVR_N_DECODERS };
extern const char *const kvr_decoder_names[];
/* KVR_EINVAL, with the known names: no such decoder. */
enum kvr_status kvr_decoder_parse(const char *name, enum kvr_decoder_kind *out);

/* Paths of a folder's files, malloc'ed. A missing file has its expected path. NULL: the model needs
 * no such file. */
struct kvr_model_paths {
    char *weights, *table, *vae; /* table: prompt_table.safetensors */
};
enum kvr_status kvr_model_paths(const char *dir, const struct kvr_model_config *c,
                                enum kvr_decoder_kind decoder, struct kvr_model_paths *out);
void kvr_model_paths_free(struct kvr_model_paths *p);

struct kvr_model; /* config and weights; defined in model_impl.h */

enum kvr_status kvr_model_open(struct kvr_model **out, struct kvr_dev *dev, const char *dir);
void kvr_model_close(struct kvr_model **m);
/* Frees all weights; config, paths and hash stay available. */
void kvr_model_shed(struct kvr_model *m);

/* Options for opening a model folder. */
struct kvr_model_use {
    const char *schedule;  /* name for kvr_schedule_choose, applied before n_steps; NULL: the
                            * model's own schedule */
    const char *sampler;   /* name for kvr_sampler_choose, applied after the schedule; NULL: the
                            * model's own sampler */
    const char *lora;      /* adapter file that replaces the config's; NULL: the config's, if any */
    int n_layers, n_steps; /* numbers of first layers and first steps that are used; 0: all. For
                            * random weights only */
    bool look;             /* read config, hash, names and shapes of weights only: no forward */
    bool plan;             /* with `look`: weights may be missing; large files are not hashed */
    enum kvr_decoder_kind decoder; /* a decoder other than KVR_DECODER_VAE (0) must exist */
    enum kvr_dtype
        decoder_compute;        /* KVR_F32, which is 0, or KVR_BF16; TAEHV computes in F32 only */
    enum kvr_dtype compute;     /* of linear layers (gemm.h): KVR_F32 (0) or KVR_BF16 */
    bool tune;                  /* autotune linear layers (kvr_gemm_tune) */
    const char *stamp, *sha256; /* stamp and hash of an earlier opening: files with this stamp are
                                 * not rehashed */
};
/* KVR_EINVAL: the model has fewer layers or steps, or latents that the decoder does not support;
 * KVR_ENOTFOUND: the decoder's file is missing. The hash covers the whole folder. Weights are
 * copied to `dev` tensor by tensor; prompt tables stay in host memory. */
enum kvr_status kvr_model_open_as(struct kvr_model **out, struct kvr_dev *dev, const char *dir,
                                  const struct kvr_model_use *use);

const struct kvr_model_config *kvr_model_config(const struct kvr_model *m);
bool kvr_model_is_lm(const struct kvr_model *m);
enum kvr_dtype kvr_model_compute(const struct kvr_model *m);
const char *kvr_model_library(const struct kvr_model *m); /* kvr_gemm_library */
const char *kvr_model_tuned(const struct kvr_model *m);   /* kvr_gemm_tuned */
const char *kvr_model_sha256(const struct kvr_model *m);  /* hex, of config.json + weights files */
/* Whether the folder has only a config, which only `plan` accepts. */
bool kvr_model_absent(const struct kvr_model *m);
const char *kvr_model_vae(const struct kvr_model *m); /* the decoder's file; NULL: the model has no
                                                       * decoder */
enum kvr_decoder_kind kvr_model_decoder(const struct kvr_model *m); /* type of that file */
enum kvr_dtype kvr_model_decoder_compute(const struct kvr_model *m);
/* Hex digest of the files' inodes, sizes and change times; constant while the files are unchanged.
 * Empty if a file was written less than a second ago, since a stamp could not detect a further
 * write. */
const char *kvr_model_stamp(const struct kvr_model *m);
int kvr_model_tokens_per_frame(const struct kvr_model *m);
int kvr_model_head_dim(const struct kvr_model *m);
int64_t kvr_model_frame_elems(const struct kvr_model *m); /* in_dim * latent_h * latent_w */

/* Prompt embedding of vocabulary ids: P[i] = token_embedding[id[i]] + position_embedding[i].
 * P [text_len, text_dim]. KVR_EUNSUPPORTED for models without a vocabulary. */
enum kvr_status kvr_model_embed(const struct kvr_model *m, const int *ids, int n_ids, float *P);
/* Embedding for a model with random weights, drawn from its seed and `text`: a row of unit variance
 * per word and one for the end token, then zeros. KVR_EUNSUPPORTED for other models. */
enum kvr_status kvr_model_draw_prompt(const struct kvr_model *m, const char *text, float *P);

#ifdef __cplusplus
}
#endif
#endif
