/* script.h - a method written in Python, as a plug-in: NAME.py in the place of NAME.so.
 *
 *     def encode(k, v):                    numpy, F32 [tokens, heads, dim]: one chunk
 *         ...
 *         return data, state               counted as codes and side information
 *
 *     def decode(data, state, shape):      data, state, and (tokens, heads, dim)
 *         ...
 *         return k, v
 *
 * data and state are bytes, one array, or None, which decode gets as bytes; or tuples, lists and
 * dicts of arrays, bytes, numbers and strings, which decode gets as they were returned. An array is
 * any object with __array__ or DLPack; torch tensors of any type are returned as tensors. The
 * description of a structure (keys, types, shapes) is also stored and counted, about ten bytes per
 * array.
 *
 * encode(k, v, ctx) and decode(data, state, shape, ctx) receive a Context (host.py): layer,
 * n_layers, heads, chunk, frame, tokens_per_frame, frames_per_chunk, tokens, and the positions of
 * the keys' RoPE.
 *
 * The file may also define NAME, FAMILY, PAPER, VERSION and OPTIONS = {"bits": (4, 2, 8, "bits per
 * code")}. Both functions receive the options as keyword arguments; a sweep can vary them like any
 * other option.
 *
 * encode and decode run in separate processes, so decode sees only what encode returned. The cache
 * stores exactly the returned bytes; attention has them decoded in every pass. A cell fails if its
 * method raises, crashes, or returns wrong shapes or non-finite values. */
#ifndef KVR_METHODS_SCRIPT_SCRIPT_H
#define KVR_METHODS_SCRIPT_SCRIPT_H

#include <stdbool.h>

#include "methods/plugin.h"

bool kvr_script_is(const char *path);

/* Runs the file to obtain its description, and builds a plug-in with one stage and one method; *out
 * lives as long as the process. KVR_EUNSUPPORTED: no interpreter; KVR_EFORMAT: the message says
 * what is wrong with the file. */
enum kvr_status kvr_script_open(const char *path, const struct kvr_plugin **out);

#endif
