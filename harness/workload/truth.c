/* truth.c - see truth.h. */
#include "harness/workload/truth.h"

#include <string.h>

static enum kvr_status read_frames(struct kvr_truth *t, const char *path, const char *tensor)
{
    static const char *const axes[] = { "frames", "rows", "columns" };
    struct kvr_tensor x;
    char shape[128];

    KVR_TRY(kvr_st_get(t->file, tensor, &x));
    if (x.dtype != KVR_U8 || x.n_dims != 4 || x.shape[3] != 3)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': the recorded clip must be U8 of shape [n, height, width, "
                        "3], but is %s of shape %s",
                        path, tensor, kvr_dtype_name(x.dtype),
                        kvr_shape_text(x.shape, x.n_dims, shape, sizeof shape));
    for (int i = 0; i < 3; i++)
        if (x.shape[i] < 1 || x.shape[i] > 100000)
            return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has %lld %s, need 1..100000", path,
                            tensor, (long long)x.shape[i], axes[i]);
    t->frames = (struct kvr_frames){ (int)x.shape[0], (int)x.shape[1], (int)x.shape[2], x.data };
    return kvr_sha256_hex(x.data, (size_t)(x.shape[0] * x.shape[1] * x.shape[2] * 3), t->sha256);
}

enum kvr_status kvr_truth_open(struct kvr_truth *t, const char *path, const char *tensor)
{
    enum kvr_status st;

    memset(t, 0, sizeof *t);
    KVR_TRY(kvr_st_open(&t->file, path));
    st = read_frames(t, path, tensor);
    if (st != KVR_OK)
        kvr_truth_close(t);
    return st;
}

void kvr_truth_close(struct kvr_truth *t)
{
    kvr_st_close(&t->file);
    memset(t, 0, sizeof *t);
}

struct kvr_frames kvr_frames_from(const struct kvr_frames *f, int from, int n)
{
    const size_t frame = (size_t)f->height * (size_t)f->width * 3;

    return (struct kvr_frames){ n - from, f->height, f->width, f->rgb + (size_t)from * frame };
}
