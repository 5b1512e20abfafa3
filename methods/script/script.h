/* script.h - a method written in Python, as a plug-in: NAME.py in the place of NAME.so.
 *
 *     def encode(k, v):                    numpy, F32 [tokens, heads, dim]: a chunk's keys and values
 *         ...
 *         return data, state               counted as codes and side information
 *
 *     def decode(data, state, shape):      data, state, and (tokens, heads, dim)
 *         ...
 *         return k, v
 *
 * data and state are bytes, one array, or None, which decode gets as bytes; or tuples, lists and dicts of
 * arrays, bytes, numbers and texts, which decode gets as they were returned. An array is anything with
 * __array__ or DLPack, a torch tensor of any type included, which comes back as such. Of a structure the
 * description (keys, types, shapes) is stored and counted too, about ten bytes for an array.
 *
 * encode(k, v, ctx) and decode(data, state, shape, ctx) are given a Context (host.py): layer, n_layers,
 * heads, chunk, frame, tokens_per_frame, frames_per_chunk, tokens, and positions, by which keys were
 * rotated.
 *
 * The file may also have NAME, FAMILY, PAPER, VERSION and OPTIONS = {"bits": (4, 2, 8, "of a
 * code")}, which are handed to both functions by name and can be varied in a sweep as any option.
 *
 * encode and decode run in a process each, so that decode has nothing but what encode returned.
 * What is held is what was returned, to the byte; attention asks for it to be decoded in every
 * pass. A method that raises, crashes, returns other shapes or numbers that are not finite fails
 * its cell. */
#ifndef KVR_METHODS_SCRIPT_SCRIPT_H
#define KVR_METHODS_SCRIPT_SCRIPT_H

#include <stdbool.h>

#include "methods/plugin.h"

bool kvr_script_is(const char *path);

/* Asks the file, which runs it, and makes a plug-in of a stage and a method of what it says; *out
 * lives as long as the process. KVR_EUNSUPPORTED: no interpreter; KVR_EFORMAT: what is wrong with
 * the file. */
enum kvr_status kvr_script_open(const char *path, const struct kvr_plugin **out);

#endif
