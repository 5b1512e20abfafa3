/* fuzz_crop.c - any bytes as a Matroska or MP4 header are refused with a message, or a crop is read
 * from them. Applying this crop to frames either leaves at least one pixel or fails and leaves the
 * frames unchanged. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/files/media/aperture.h"
#include "harness/files/media/crop.h"

enum { WIDTH = 16, HEIGHT = 9 };

static void apply(const struct kvr_crop *c)
{
    uint8_t pixels[2 * HEIGHT * WIDTH * 3] = { 0 };
    struct kvr_video v = { .frames = { 2, HEIGHT, WIDTH, pixels },
                           .pixels = pixels,
                           .pixel = { 1, 1 } };

    assert(c->top >= 0 && c->bottom >= 0 && c->left >= 0 && c->right >= 0);
    if (kvr_crop_apply(c, &v, "fuzz") != KVR_OK)
        assert(v.frames.width == WIDTH && v.frames.height == HEIGHT);
    else
        assert(v.frames.width >= 1 && v.frames.height >= 1 && v.frames.width <= WIDTH &&
               v.frames.height <= HEIGHT && v.pixel.num > 0 && v.pixel.den > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    FILE *f = n ? fmemopen((void *)bytes, n, "rb") : NULL;
    struct kvr_crop c;

    if (!f)
        return 0;
    for (int i = 0; i < 4; i++)
        if ((i % 2 ? kvr_aperture_read : kvr_crop_read)(&c, f, i / 2, "fuzz") == KVR_OK)
            apply(&c);
        else
            assert(strncmp(kvr_error(), "fuzz: ", 6) == 0);
    fclose(f);
    return 0;
}
