/* pack.h - packs codes of b bits into bytes, b = 1..8, and unpacks them.
 *
 * codes [T,C], one byte each, become planes, one per set bit of b from the high field down (b = 3:
 * a plane of 2-bit fields, then one of 1-bit fields). A plane of f-bit fields holds 8/f tokens of
 * one channel in a byte:
 *
 *     row r, channel c:   bit 0                          bit 7
 *                         | t = r*8/f | r*8/f + 1 | ...      |
 *
 * so channels stay contiguous and unpacking uses one shift for a whole row. */
#ifndef KVR_METHODS_KERNELS_PACK_H
#define KVR_METHODS_KERNELS_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the packed planes. */
size_t kvr_pack_bytes(int64_t n_tok, int64_t channels, int bits);

/* Writes tokens [t0, t0+n), channels [c0, c0+nc) of the packed tensor [n_tok, channels]; t0 is a
 * multiple of 8; codes [n, nc]. Fields past the last token of a byte become 0. */
void kvr_pack(uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t0, int64_t n,
              int64_t c0, int64_t nc, const uint8_t *codes);

/* Reads channels [c0, c0+nc) of one token into codes [nc]. */
void kvr_unpack_token(const uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t,
                      int64_t c0, int64_t nc, uint8_t *codes);

#endif
