/* script.h - loads a method that is written in Python as a plug-in. The file NAME.py is used like a
 * shared object NAME.so:
 *
 *     def encode(k, v):                    numpy, F32 [tokens, heads, dim]: one chunk
 *         ...
 *         return data, state               counted as codes and side information
 *
 *     def decode(data, state, shape):      data, state, and (tokens, heads, dim)
 *         ...
 *         return k, v
 *
 * The function encode returns `data` and `state`. If `data` or `state` is bytes, one array or None,
 * decode receives it as bytes (None as empty bytes). If it is a tuple, list or dict of arrays,
 * bytes, numbers and strings, decode receives an equal structure. An array is any object that
 * supports __array__ or DLPack; in a structure, decode receives a torch tensor as a torch tensor
 * and any other array as a NumPy array. The description of a structure (keys, types, shapes) counts
 * as stored bytes, about ten bytes per array.
 *
 * Either function may take a Context (host.py) as an additional last parameter: encode(k, v, ctx),
 * decode(data, state, shape, ctx). A Context describes the tokens to encode or decode. Its
 * attributes layer, heads, chunk and frame are indices; chunk and frame are those of the first
 * token. The attribute tokens has the index of each token in the video, and positions its frame,
 * row and column, for RoPE. The other attributes are n_layers, tokens_per_frame and
 * frames_per_chunk.
 *
 * The file may also define NAME, FAMILY, PAPER, VERSION and OPTIONS, as in OPTIONS = dict(bits=(4,
 * 2, 8, "bits per code")), which gives the option's default, minimum, maximum and description. The
 * functions encode and decode receive the options as keyword arguments. Users set these options
 * like those of built-in methods.
 *
 * The functions encode and decode run in separate processes, so decode receives only what encode
 * returned. The cache stores exactly the returned bytes and calls decode for attention in every
 * pass of the model. If encode or decode raises an exception, crashes, or returns wrong shapes or
 * non-finite values, the run fails. */
#ifndef KVR_METHODS_SCRIPT_SCRIPT_H
#define KVR_METHODS_SCRIPT_SCRIPT_H

#include <stdbool.h>

#include "methods/plugin.h"

/* Returns whether the path ends in ".py". */
bool kvr_script_is(const char *path);

/* Runs the file to read the method's name and options, and builds a plug-in with one codec stage
 * and one method. The caller either registers the plug-in *out, which then lives as long as the
 * process, or frees it by kvr_script_close(). Fails with KVR_EUNSUPPORTED if
 * there is no Python interpreter, and with KVR_EFORMAT if the file is invalid; the message states
 * the Python error. */
enum kvr_status kvr_script_open(const char *path, const struct kvr_plugin **out);
/* Frees a plug-in that was not registered. */
void kvr_script_close(const struct kvr_plugin *p);

#endif
