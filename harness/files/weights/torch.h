/* torch.h - lists the tensors of a file written by torch.save, in PyTorch's zip format or legacy
 * format.
 *
 *     struct kvr_weight_list l;
 *     KVR_TRY(kvr_torch_read(&l, &legacy, "model.pt", bytes, n));
 *
 * In the zip format, the record FOLDER/data.pkl is a pickle (pickle.h) of containers and tensors.
 * Tensor elements are stored in records FOLDER/data/KEY, one per PyTorch storage, where KEY is the
 * storage's key in the pickle. The record FOLDER/byteorder is absent or contains "little". A file
 * in the legacy format begins with five pickles: a magic number, the version 1001, the byte order
 * and type sizes of the writing machine, the saved object, and the list of storage keys. The
 * storages follow in the order of that list, each as an int64 number of elements and the elements.
 * Big-endian files are refused in both formats.
 *
 * Several tensors may be views of one storage, with different offsets and strides. Each tensor must
 * lie within its storage, and a storage must have the length given by its type and number of
 * elements. No code in the file is executed. */
#ifndef KVR_WEIGHTS_TORCH_H
#define KVR_WEIGHTS_TORCH_H

#include "harness/files/weights/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists the tensors of the file whose n bytes are at `bytes`. `where` is the file's name for error
 * messages. The list contains pointers into `bytes` and `where`, which must outlive the list. Sets
 * *legacy to true if the file has the legacy format. After an error the list `l` is empty. */
enum kvr_status kvr_torch_read(struct kvr_weight_list *l, bool *legacy, const char *where,
                               const unsigned char *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
