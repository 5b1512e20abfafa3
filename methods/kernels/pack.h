/* pack.h - packs codes of b bits into bytes, b = 1..8, and unpacks them.
 *
 * The codes [T,C], of one byte each, are split into bit planes. The code width b is a sum of
 * distinct powers of two f, and every f has a plane of f-bit fields, the largest f first. For b =
 * 3, a plane of 2-bit fields is followed by a plane of 1-bit fields. In a plane of f-bit fields, a
 * byte has the fields of 8/f tokens of one channel:
 *
 *     row r, channel c:   bit 0                          bit 7
 *                         | t = r*8/f | r*8/f + 1 | ...      |
 *
 * Row r is the C bytes, contiguous over channels, of tokens r*8/f to (r+1)*8/f - 1. To unpack a
 * token, all bytes of its row are shifted by the same number of bits. */
#ifndef KVR_METHODS_KERNELS_PACK_H
#define KVR_METHODS_KERNELS_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Number of bytes of the packed planes. */
size_t kvr_pack_bytes(int64_t n_tok, int64_t channels, int bits);

/* Packs codes [n, nc] of tokens [t0, t0+n) and channels [c0, c0+nc) into the planes of n_tok tokens
 * and `channels` channels. t0 is a multiple of 8. If n_tok is not a multiple of 8/f, the unused
 * fields in the last row of a plane of f-bit fields become 0. */
void kvr_pack(uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t0, int64_t n,
              int64_t c0, int64_t nc, const uint8_t *codes);

/* Unpacks channels [c0, c0+nc) of one token to codes [nc]. */
void kvr_unpack_token(const uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t,
                      int64_t c0, int64_t nc, uint8_t *codes);

#endif
