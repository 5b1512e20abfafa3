/* test_crop.c - reads the crop of a video track from Matroska and MP4 headers, and applies a crop
 * to frames and pixel aspect ratio. The crop is found wherever the header stores the track, and a
 * truncated header is refused. */
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness/files/media/aperture.h"
#include "harness/files/media/crop.h"
#include "tests/files/files.h"
#include "tests/suite.h"

#define SEEDS "tests/fuzz/corpus/crop/"

static enum kvr_status read_bytes(struct kvr_crop *c, const void *bytes, size_t n, int nth)
{
    FILE *f = fmemopen((void *)bytes, n, "rb");
    enum kvr_status st;

    ck_assert_ptr_nonnull(f);
    st = kvr_crop_read(c, f, nth, "name.mkv");
    fclose(f);
    return st;
}

static const struct read_case {
    const char *file;
    int nth;
    struct kvr_crop want;
} reads[] = {
    { "cropped", 0, { 4, 2, 6, 1, 85, 48, 0 } }, /* an audio track precedes the video track */
    { "second", 0, { 0 } },
    { "second", 1, { 4, 2, 6, 1, 0, 0, 0 } }, /* the segment's size is unknown */
    { "late", 0, { 4, 2, 6, 1, 0, 0, 0 } },   /* the tracks follow the clusters */
};

START_TEST(crop_of_the_track_is_read)
{
    const struct read_case *r = &reads[_i];
    struct kvr_crop c;
    char path[64];
    size_t n;
    unsigned char *bytes;

    snprintf(path, sizeof path, SEEDS "%s", r->file);
    bytes = read_file(path, &n);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_msg(read_bytes(&c, bytes, n, r->nth) == KVR_OK, "%s: %s", path, kvr_error());
    ck_assert_mem_eq(&c, &r->want, sizeof c);
    ck_assert_int_eq(read_bytes(&c, bytes, n, 2), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), "name.mkv: the crop is unknown, since the Matroska header") !=
                      NULL,
                  "%s", kvr_error());
    free(bytes);
}
END_TEST

START_TEST(cut_headers_are_refused)
{
    struct kvr_crop c;
    size_t n;
    unsigned char *bytes;
    char path[64];

    snprintf(path, sizeof path, SEEDS "%s", reads[_i].file);
    bytes = read_file(path, &n);
    ck_assert_ptr_nonnull(bytes);
    for (size_t cut = 1; cut < n; cut++)
        if (read_bytes(&c, bytes, cut, reads[_i].nth) == KVR_OK)
            /* A truncated header may be accepted only if it still contains the complete entry of
             * the requested track. */
            ck_assert_mem_eq(&c, &reads[_i].want, sizeof c);
    ck_assert_int_eq(read_bytes(&c, bytes, n - 8, 1), KVR_EFORMAT);
    ck_assert_int_eq(c.top, 0);
    free(bytes);
}
END_TEST

/* An MP4 with an audio track before two video tracks. From the complete file, each track's clean
 * aperture (the visible part of a frame) is read. From a truncated file none is read. */
START_TEST(apertures_are_read)
{
    static const struct kvr_crop want[] = { { 4, 4, 2, 2, 0, 0, 4 },
                                            { 4, 2, 6, 1, 0, 0, 4 },
                                            { .display_unit = 4 } };
    struct kvr_crop c;
    size_t n;
    unsigned char *bytes = read_file(SEEDS "aperture", &n);

    ck_assert_ptr_nonnull(bytes);
    for (size_t size = 1; size <= n; size++) {
        FILE *f = fmemopen(bytes, size, "rb");

        ck_assert_ptr_nonnull(f);
        for (int nth = 0; nth < 3; nth++) {
            ck_assert_msg(kvr_aperture_read(&c, f, nth, "name.mp4") == KVR_OK, "%s", kvr_error());
            ck_assert_mem_eq(&c, &want[size == n ? nth : 2], sizeof c);
        }
        fclose(f);
    }
    free(bytes);
}
END_TEST

static const struct apply_case {
    struct kvr_crop crop;
    /* size of the cropped frame, and index of its first pixel in the 6x4 input (row-major) */
    int width, height, first;
    struct kvr_ratio pixel;
    enum kvr_status st;
} applied[] = {
    { { 0 }, 6, 4, 0, { 3, 2 }, KVR_OK }, /* no crop: the frame is unchanged */
    { { 1, 0, 0, 0, 0, 0, 0 }, 6, 3, 6, { 1, 1 }, KVR_OK },
    { { 0, 1, 2, 0, 0, 0, 0 }, 4, 3, 2, { 1, 1 }, KVR_OK },
    { { 1, 2, 2, 3, 7, 2, 0 }, 1, 1, 8, { 7, 2 }, KVR_OK },
    { { 0, 0, 0, 3, 6, 4, 3 }, 3, 4, 0, { 2, 1 }, KVR_OK },
    { { 2, 0, 0, 0, 6, 4, 4 }, 6, 2, 12, { 3, 2 }, KVR_OK }, /* the display unit is unknown */
    { { 1, 0, 0, 0, INT_MAX, 1, 0 }, 6, 3, 6, { INT_MAX, 2 }, KVR_OK },
    /* the pixel aspect ratio would be 4 * INT_MAX and is limited to INT_MAX */
    { { 0, 0, 0, 5, INT_MAX, 1, 0 }, 1, 4, 0, { INT_MAX, 1 }, KVR_OK },
    { { 2, 2, 0, 0, 0, 0, 0 }, 6, 4, 0, { 3, 2 }, KVR_EFORMAT },
    { { 0, 0, INT_MAX, INT_MAX, 0, 0, 0 }, 6, 4, 0, { 3, 2 }, KVR_EFORMAT },
};

START_TEST(crop_is_applied_to_every_frame)
{
    const struct apply_case *a = &applied[_i];
    uint8_t pixels[3][4][6][3];
    struct kvr_video v = { .frames = { 3, 4, 6, &pixels[0][0][0][0] },
                           .pixels = &pixels[0][0][0][0],
                           .pixel = { 3, 2 } };

    for (int i = 0; i < 3 * 4 * 6 * 3; i++)
        v.pixels[i] = (uint8_t)i;
    ck_assert_int_eq(kvr_crop_apply(&a->crop, &v, "name.mkv"), a->st);
    if (a->st != KVR_OK)
        ck_assert_msg(strstr(kvr_error(), "leaves no pixel of 6x4") != NULL, "%s", kvr_error());
    ck_assert_int_eq(v.frames.width, a->width);
    ck_assert_int_eq(v.frames.height, a->height);
    ck_assert_int_eq(v.pixel.num, a->pixel.num);
    ck_assert_int_eq(v.pixel.den, a->pixel.den);
    for (int i = 0, at = 0; i < 3; i++)
        for (int y = 0; y < a->height; y++)
            for (int x = 0; x < a->width * 3; x++, at++)
                ck_assert_int_eq(v.pixels[at], (uint8_t)(3 * (24 * i + a->first + 6 * y) + x));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crop");
    TCase *tc = tcase_create("crop");

    tcase_add_loop_test(tc, crop_of_the_track_is_read, 0, sizeof reads / sizeof reads[0]);
    tcase_add_loop_test(tc, cut_headers_are_refused, 0, sizeof reads / sizeof reads[0]);
    tcase_add_test(tc, apertures_are_read);
    tcase_add_loop_test(tc, crop_is_applied_to_every_frame, 0, sizeof applied / sizeof applied[0]);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
