/* torch.h - the tensors of a torch.save file, in either of its two formats.
 *
 *     struct kvr_weight_list l;
 *     KVR_TRY(kvr_torch_read(&l, &legacy, "model.pt", bytes, n));
 *
 * Zip format: FOLDER/data.pkl is a pickle (pickle.h) of containers and tensors, FOLDER/data/KEY the
 * storages, FOLDER/byteorder "little" or absent. Legacy format: pickles of a magic number, the
 * number 1001, facts of the writer's machine, the object and the list of storage keys, then for
 * each key the number of elements as int64, and the elements.
 *
 * Tensors may share a storage with offsets and strides. Each must lie within its storage, and each
 * storage must have the length given by its type and number of elements. Nothing is executed. */
#ifndef KVR_WEIGHTS_TORCH_H
#define KVR_WEIGHTS_TORCH_H

#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `bytes` and `where` are borrowed for the list's life. *legacy: whether the file has the legacy
 * format. On failure `l` is empty. */
enum kvr_status kvr_torch_read(struct kvr_weight_list *l, bool *legacy, const char *where,
                               const unsigned char *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
