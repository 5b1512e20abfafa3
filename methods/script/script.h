/* script.h - loads a method written in Python as a plug-in; the file NAME.py replaces a shared
 * object NAME.so.
 *
 *     def encode(k, v):                    numpy, F32 [tokens, heads, dim]: one chunk
 *         ...
 *         return data, state               counted as codes and side information
 *
 *     def decode(data, state, shape):      data, state, and (tokens, heads, dim)
 *         ...
 *         return k, v
 *
 * The function encode may return bytes, one array or None as data and as state; decode then
 * receives bytes. The function encode may also return tuples, lists and dicts of arrays, bytes,
 * numbers and strings; decode then receives the same structure. An array is any object with
 * __array__ or DLPack; a torch tensor of any type is passed to decode as a tensor. The description
 * of a structure (keys, types, shapes) is also stored and counted in the cell's bytes, at about ten
 * bytes per array.
 *
 * Functions with a last parameter, encode(k, v, ctx) and decode(data, state, shape, ctx), receive a
 * Context (host.py). A Context has layer, n_layers, heads, chunk, frame, tokens_per_frame,
 * frames_per_chunk, tokens, and the RoPE positions of the keys.
 *
 * The file may also define NAME, FAMILY, PAPER, VERSION and OPTIONS, as in OPTIONS = dict(bits=(4,
 * 2, 8, "bits per code")). The functions encode and decode receive the options as keyword
 * arguments, and a sweep can vary these options like those of built-in methods.
 *
 * The functions encode and decode run in separate processes, so decode receives only what encode
 * returned. The cache stores exactly the returned bytes and has them decoded for attention in every
 * pass. If encode or decode raises an exception, crashes, or returns wrong shapes or non-finite
 * values, the cell fails. */
#ifndef KVR_METHODS_SCRIPT_SCRIPT_H
#define KVR_METHODS_SCRIPT_SCRIPT_H

#include <stdbool.h>

#include "methods/plugin.h"

/* Whether the path names a Python file. */
bool kvr_script_is(const char *path);

/* Runs the file to obtain its description, and builds a plug-in with one stage and one method. The
 * plug-in *out lives as long as the process. Fails with KVR_EUNSUPPORTED if there is no
 * interpreter, and with KVR_EFORMAT if the file is invalid; the message gives the error. */
enum kvr_status kvr_script_open(const char *path, const struct kvr_plugin **out);

#endif
