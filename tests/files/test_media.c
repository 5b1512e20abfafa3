/* test_media.c - round trips: raw frames and PNG are exact, H.264 is close. Errors name the file
 * that is missing or truncated or cannot be created. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "harness/files/media/font.h"
#include "harness/files/media/media.h"
#include "tests/allocator.h"
#include "tests/suite.h"

static char dir[] = "/tmp/kvreel-test-media-XXXXXX";

static void make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    rmdir(dir);
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
}

/* Replaces fsync() of the C library and records the inodes of the synced files. */
static ino_t synced[16];
static int n_synced;

int fsync(int fd)
{
    struct stat sb;

    if (fstat(fd, &sb) == 0)
        synced[n_synced++ % 16] = sb.st_ino;
    return (int)syscall(SYS_fsync, fd);
}

/* Replaces pread() and pwrite(): every second call is interrupted if `interrupts` is true, and
 * pwrite() writes nothing from call number `stops_at` on (0: it always writes). */
static bool interrupts;
static long stops_at, n_calls, n_interrupted;

static bool is_interrupted(void)
{
    if (!interrupts || ++n_calls % 2 == 0)
        return false;
    n_interrupted++;
    errno = EINTR;
    return true;
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    return is_interrupted() ? -1 : syscall(SYS_pread64, fd, p, n, at);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (stops_at > 0 && --stops_at == 0) {
        stops_at = 1;
        return 0;
    }
    return is_interrupted() ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}

/* Replaces malloc() and free(): the next allocation of `guarded` to `guarded` + ROOM bytes ends at
 * an inaccessible page. */
#ifndef OTHERS_ALLOCATE
#define GUARDED
enum { ROOM = 64, PAGE = 4096, MOST = 64 * PAGE };
static size_t guarded; /* smallest size in bytes of the allocation to guard; 0: guard none */
static uint8_t *guarded_at, *guarded_pages;

void *__libc_malloc(size_t n);
void __libc_free(void *p);

void *malloc(size_t n)
{
    if (!guarded || n < guarded || n > guarded + ROOM)
        return __libc_malloc(n);
    guarded = 0;
    guarded_pages =
        mmap(NULL, MOST + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded_pages == MAP_FAILED || mprotect(guarded_pages + MOST, PAGE, PROT_NONE) != 0)
        abort();
    return guarded_at = guarded_pages + MOST - n;
}

void free(void *p)
{
    if (!p || p != guarded_at) {
        __libc_free(p);
        return;
    }
    guarded_at = NULL;
    munmap(guarded_pages, MOST + PAGE);
}
#endif

static const char *in_dir(char *buf, size_t n, const char *name)
{
    snprintf(buf, n, "%s/%s", dir, name);
    return buf;
}

/* Draws a disc that moves one pixel per frame over a gradient. The green level is the same in a
 * whole frame and rises by two per frame, so it identifies the frame. */
static struct kvr_video disc(int n, int height, int width)
{
    struct kvr_video v = { .fps = 16 };
    uint8_t *p = malloc((size_t)n * (size_t)height * (size_t)width * 3);

    ck_assert_ptr_nonnull(p);
    v.pixels = p;
    v.frames = (struct kvr_frames){ n, height, width, v.pixels };
    for (int t = 0; t < n; t++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++, p += 3) {
                int dx = x - 6 - t, dy = y - height / 2;
                int in = dx * dx + dy * dy < 20;

                p[0] = in ? 220 : (uint8_t)(30 + 2 * y);
                p[1] = (uint8_t)(40 + 2 * t);
                p[2] = in ? 60 : (uint8_t)(90 + x);
            }
    return v;
}

static off_t size_of(const char *path)
{
    struct stat sb;

    ck_assert_msg(stat(path, &sb) == 0, "%s is not there", path);
    return sb.st_size;
}

START_TEST(raw_frames_round_trip)
{
    struct kvr_video v = disc(5, 9, 13), back;
    char path[128];

    in_dir(path, sizeof path, "a.safetensors");
    ck_assert_msg(kvr_frames_write(path, &v.frames, 16.5) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_video_read(&back, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(back.frames.n, 5);
    ck_assert_int_eq(back.frames.height, 9);
    ck_assert_int_eq(back.frames.width, 13);
    ck_assert(back.fps == 16.5);
    ck_assert(memcmp(back.pixels, v.pixels, 5 * 9 * 13 * 3) == 0);
    kvr_video_free(&back);

    /* The file is truncated by one byte. */
    ck_assert_int_eq(truncate(path, size_of(path) - 1), 0);
    ck_assert_int_eq(kvr_video_read(&back, path), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), path) != NULL, "%s", kvr_error());
    ck_assert_ptr_null(back.pixels);
    unlink(path);
    kvr_video_free(&v);
}
END_TEST

START_TEST(png_round_trip)
{
    struct kvr_video v = disc(1, 31, 17), back;
    char path[128];

    in_dir(path, sizeof path, "a.png");
    ck_assert_msg(kvr_png_write(path, v.pixels, 31, 17) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_video_read(&back, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(back.frames.n, 1);
    ck_assert_int_eq(back.frames.height, 31);
    ck_assert_int_eq(back.frames.width, 17);
    ck_assert(memcmp(back.pixels, v.pixels, 31 * 17 * 3) == 0);
    kvr_video_free(&back);
    unlink(path);
    kvr_video_free(&v);
}
END_TEST

/* height, width, scale, frames, fps -> height and width of the video file */
static const struct mp4_case {
    int height, width, scale, n;
    double fps;
    int out_height, out_width;
} mp4_cases[] = {
    { 32, 48, 4, 42, 16.0, 128, 192 },
    { 31, 45, 1, 9, 15.0, 32, 46 },             /* odd: padded to even */
    { 31, 45, 3, 9, 12.5, 94, 136 },            /* odd after scaling */
    { 16, 16, 2, 1, 30000.0 / 1001.0, 32, 32 }, /* a single frame */
};

START_TEST(mp4_round_trip)
{
    const struct mp4_case *mc = &mp4_cases[_i];
    struct kvr_video v = disc(mc->n, mc->height, mc->width), back;
    char path[128];
    size_t w = (size_t)mc->width, h = (size_t)mc->height, s = (size_t)mc->scale;
    /* H.264 stores one chroma value per 2x2 pixels, so the disc's edge blurs unless the writer
     * enlarges the frame. The measured RMS error is 4 to 9 levels of 255 at scales 1 and 2, and 1
     * level from scale 3. With red and blue swapped it would be 40. */
    double tol = mc->scale < 3 ? 12.0 : 4.0;

    in_dir(path, sizeof path, "a.mp4");
    ck_assert_msg(kvr_mp4_write(path, &v.frames, mc->fps, mc->scale) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_video_read(&back, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(back.frames.n, mc->n);
    ck_assert_int_eq(back.frames.height, mc->out_height);
    ck_assert_int_eq(back.frames.width, mc->out_width);
    /* FFmpeg stores the frame rate as a fraction with a bounded denominator. */
    ck_assert_msg(fabs(back.fps - mc->fps) <= 1e-4 * mc->fps, "fps %g, wrote %g", back.fps,
                  mc->fps);
    for (size_t t = 0; t < (size_t)mc->n; t++) {
        double sse = 0.0, green = 0.0, rmse;

        for (size_t i = 0; i < w * h; i++) {
            size_t y = i / w * s + s / 2, x = i % w * s + s / 2;
            const uint8_t *p =
                back.pixels + ((t * (size_t)mc->out_height + y) * (size_t)mc->out_width + x) * 3;
            const uint8_t *q = v.pixels + (t * w * h + i) * 3;

            for (int c = 0; c < 3; c++)
                sse += (double)((p[c] - q[c]) * (p[c] - q[c]));
            green += (double)(p[1] - q[1]) / (double)(w * h);
        }
        rmse = sqrt(sse / (3.0 * (double)(w * h)));
        ck_assert_msg(rmse <= tol, "frame %zu: rmse %g", t, rmse);
        /* The mean green level of a neighbouring frame would differ by 2. */
        ck_assert_msg(fabs(green) <= 1.0, "frame %zu: green off by %g", t, green);
    }
    kvr_video_free(&back);
    unlink(path);
    kvr_video_free(&v);
}
END_TEST

/* The same frames give the same file, also if signals interrupt the reads and writes. */
START_TEST(mp4_is_deterministic)
{
    struct kvr_video v = disc(12, 20, 24);
    char path[2][128];
    char *bytes[2];
    long n[2];

    for (int i = 0; i < 2; i++) {
        FILE *f;

        in_dir(path[i], sizeof path[i], i ? "b.mp4" : "a.mp4");
        interrupts = i == 1;
        ck_assert_msg(kvr_mp4_write(path[i], &v.frames, 16, 2) == KVR_OK, "%s", kvr_error());
        interrupts = false;
        n[i] = (long)size_of(path[i]);
        bytes[i] = malloc((size_t)n[i]);
        f = fopen(path[i], "rb");
        ck_assert(f && fread(bytes[i], 1, (size_t)n[i], f) == (size_t)n[i]);
        fclose(f);
        unlink(path[i]);
    }
    ck_assert_int_ge(n_interrupted, 3);
    ck_assert_int_eq(n[0], n[1]);
    ck_assert(memcmp(bytes[0], bytes[1], (size_t)n[0]) == 0);
    free(bytes[0]);
    free(bytes[1]);
    kvr_video_free(&v);
}
END_TEST

/* The file is synced to the disk before it gets its final name. If a symbolic link has the
 * temporary file's name, the writer must not follow it and overwrite another file. */
START_TEST(mp4_is_whole_and_its_own)
{
    struct kvr_video v = disc(3, 8, 8);
    char path[128], victim[128], link[2][192];
    bool on_disk = false;
    struct stat sb;
    FILE *f;

    in_dir(path, sizeof path, "a.mp4");
    in_dir(victim, sizeof victim, "victim");
    f = fopen(victim, "w");
    ck_assert_ptr_nonnull(f);
    fputs("dear", f);
    fclose(f);
    snprintf(link[0], sizeof link[0], "%s.part-%ld", path, (long)getpid());
    snprintf(link[1], sizeof link[1], "%s.tmp-%ld-0", path, (long)getpid());
    ck_assert_int_eq(symlink(victim, link[0]), 0);
    ck_assert_int_eq(symlink(victim, link[1]), 0);
    n_synced = 0;
    ck_assert_msg(kvr_mp4_write(path, &v.frames, 16, 1) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(size_of(victim), 4);
    ck_assert_int_eq(lstat(path, &sb), 0);
    ck_assert(S_ISREG(sb.st_mode));
    for (int i = 0; i < n_synced; i++)
        on_disk = on_disk || synced[i] == sb.st_ino;
    ck_assert(on_disk);
    unlink(path);
    unlink(victim);
    unlink(link[0]);
    unlink(link[1]);
    kvr_video_free(&v);
}
END_TEST

/* swscale's wide loads read beyond the last pixel of a picture, so the writer must give it padded
 * memory. */
START_TEST(mp4_reads_its_own_memory)
{
#ifdef GUARDED
    struct kvr_video v = disc(3, 24, 34);
    char path[128];

    in_dir(path, sizeof path, "a.mp4");
    guarded = 24 * 34 * 3;
    ck_assert_msg(kvr_mp4_write(path, &v.frames, 16, 1) == KVR_OK, "%s", kvr_error());
    ck_assert_uint_eq(guarded, 0);
    unlink(path);
    kvr_video_free(&v);
#endif
}
END_TEST

START_TEST(mp4_on_a_full_disk)
{
    struct kvr_video v = disc(3, 8, 8);
    char path[128];

    in_dir(path, sizeof path, "full.mp4");
    /* a device node like /dev/full, on which every write fails; only root can create it */
    if (mknod(path, S_IFCHR | 0600, makedev(1, 7)) == 0) {
        ck_assert_int_eq(kvr_mp4_write(path, &v.frames, 16, 1), KVR_EFULL);
        ck_assert_msg(strstr(kvr_error(), path) != NULL, "%s", kvr_error());
        unlink(path);
    }
    kvr_video_free(&v);
}
END_TEST

START_TEST(mp4_that_cannot_be_continued)
{
    struct kvr_video v = disc(9, 32, 48);
    char path[128];

    in_dir(path, sizeof path, "a.mp4");
    stops_at = 2;
    ck_assert_int_eq(kvr_mp4_write(path, &v.frames, 16, 1), KVR_EIO);
    ck_assert_msg(strstr(kvr_error(), "Input/output error") != NULL, "%s", kvr_error());
    stops_at = 0;
    ck_assert_int_ne(access(path, F_OK), 0);
    kvr_video_free(&v);
}
END_TEST

START_TEST(mp4_cut_short_is_refused)
{
    struct kvr_video v = disc(30, 24, 32), back;
    char path[128];
    off_t whole;

    in_dir(path, sizeof path, "a.mp4");
    ck_assert_int_eq(kvr_mp4_write(path, &v.frames, 16, 2), KVR_OK);
    whole = size_of(path);
    for (int keep = 99; keep >= 0; keep -= 9) {
        ck_assert_int_eq(truncate(path, whole * keep / 100), 0);
        ck_assert_msg(kvr_video_read(&back, path) == KVR_EFORMAT, "%d%%: %s", keep, kvr_error());
        ck_assert_msg(strstr(kvr_error(), path) != NULL, "%s", kvr_error());
        ck_assert_ptr_null(back.pixels);
    }
    unlink(path);
    kvr_video_free(&v);
}
END_TEST

START_TEST(paths_that_cannot_be_used_are_named)
{
    struct kvr_video v = disc(2, 8, 8), back;
    struct kvr_sheet_row row = { .label = "x", .frames = v.frames };
    const char *nowhere = "/nonexistent-folder/a";

    ck_assert_int_ne(kvr_mp4_write(nowhere, &v.frames, 16, 1), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), nowhere) != NULL, "%s", kvr_error());
    ck_assert_int_ne(kvr_png_write(nowhere, v.pixels, 8, 8), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), nowhere) != NULL, "%s", kvr_error());
    ck_assert_int_ne(kvr_frames_write(nowhere, &v.frames, 16), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), nowhere) != NULL, "%s", kvr_error());
    ck_assert_int_ne(kvr_sheet_write(nowhere, &row, 1, 2, 1), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), nowhere) != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_video_read(&back, "/nonexistent-folder/a.mp4"), KVR_ENOTFOUND);
    ck_assert_msg(strstr(kvr_error(), "/nonexistent-folder/a.mp4") != NULL, "%s", kvr_error());
    ck_assert_int_eq(kvr_video_read(&back, "/etc/passwd"), KVR_EFORMAT);
    kvr_video_free(&v);
}
END_TEST

START_TEST(arguments_out_of_bounds_are_refused)
{
    struct kvr_video v = disc(2, 8, 8);
    struct kvr_frames none = { 0, 8, 8, v.pixels };
    struct kvr_video w = disc(2, 8, 9);
    struct kvr_sheet_row rows[2] = { { .label = "a", .frames = v.frames },
                                     { .label = "b", .frames = w.frames } };

    ck_assert_int_eq(kvr_mp4_write("x.mp4", &none, 16, 1), KVR_EINVAL);
    ck_assert_int_eq(kvr_mp4_write("x.mp4", &v.frames, 0, 1), KVR_EINVAL);
    ck_assert_int_eq(kvr_mp4_write("x.mp4", &v.frames, NAN, 1), KVR_EINVAL);
    ck_assert_int_eq(kvr_mp4_write("x.mp4", &v.frames, 16, 0), KVR_EINVAL);
    ck_assert_int_eq(kvr_mp4_write("x.mp4", &v.frames, 16, 1 << 30), KVR_EINVAL);
    ck_assert_int_eq(kvr_frames_write("x.safetensors", &none, 16), KVR_EINVAL);
    ck_assert_int_eq(kvr_sheet_write("x.png", rows, 2, 2, 1), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "'b'") && strstr(kvr_error(), "9x8"), "%s", kvr_error());
    ck_assert_int_eq(kvr_sheet_write("x.png", rows, 1, 0, 1), KVR_EINVAL);
    ck_assert_int_eq(access("x.mp4", F_OK), -1);
    kvr_video_free(&v);
    kvr_video_free(&w);
}
END_TEST

/* Returns whether `sheet` shows the h x w picture `part`, enlarged by `scale`, at row y0 and column
 * x0. */
static int shows(const struct kvr_frames *sheet, int y0, int x0, const uint8_t *part, int h, int w,
                 int scale)
{
    for (int y = 0; y < h * scale; y++)
        for (int x = 0; x < w * scale; x++)
            if (memcmp(sheet->rgb +
                           ((size_t)(y0 + y) * (size_t)sheet->width + (size_t)(x0 + x)) * 3,
                       part + ((size_t)(y / scale) * (size_t)w + (size_t)(x / scale)) * 3, 3) != 0)
                return 0;
    return 1;
}

START_TEST(sheet_shows_first_and_last_frames)
{
    struct kvr_video v = disc(11, 12, 40), shortv = disc(2, 12, 40), back;
    struct kvr_sheet_row rows[2] = {
        { .label = "BF16", .frames = v.frames },
        { .label = "a label much longer than the sheet is wide, so it is cut "
                   "and two dots are put where it was cut",
          .frames = shortv.frames }
    };
    size_t frame = 12 * 40 * 3;
    char path[128];
    int found = 0;

    in_dir(path, sizeof path, "sheet.png");
    ck_assert_msg(kvr_sheet_write(path, rows, 2, 3, 2) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_video_read(&back, path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(back.frames.width, 2 + 3 * (80 + 2));
    for (int y = 0; y + 24 <= back.frames.height; y++) {
        found += shows(&back.frames, y, 2, v.pixels, 12, 40, 2) &&
                 shows(&back.frames, y, 2 + 82, v.pixels + 5 * frame, 12, 40, 2) &&
                 shows(&back.frames, y, 2 + 164, v.pixels + 10 * frame, 12, 40, 2);
        found += 10 * (shows(&back.frames, y, 2, shortv.pixels, 12, 40, 2) &&
                       shows(&back.frames, y, 2 + 82, shortv.pixels + frame, 12, 40, 2));
    }
    ck_assert_int_eq(found, 11); /* each row once */
    kvr_video_free(&back);
    unlink(path);
    kvr_video_free(&v);
    kvr_video_free(&shortv);
}
END_TEST

START_TEST(font_stays_inside_the_canvas)
{
    enum { H = 10, W = 14, GUARD = 64 };
    uint8_t memory[GUARD + H * W * 3 + GUARD];
    struct kvr_canvas c = { H, W, memory + GUARD };
    const uint8_t white[3] = { 255, 255, 255 };
    int inked = 0;

    memset(memory, 7, sizeof memory);
    for (int y = -9; y < H + 3; y += 4)
        for (int x = -20; x < W + 3; x += 5)
            kvr_font_draw(&c, x, y, 2, white, "W\x01~\xc3\xa9", 9);
    for (int i = 0; i < GUARD; i++) {
        ck_assert_int_eq(memory[i], 7);
        ck_assert_int_eq(memory[sizeof memory - 1 - (size_t)i], 7);
    }
    for (size_t i = GUARD; i < GUARD + H * W * 3; i++)
        inked += memory[i] == 255;
    ck_assert_int_gt(inked, 0);
    ck_assert_int_eq(kvr_font_count("W\xc3\xa9 x"), 4);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("media");
    TCase *tc = tcase_create("media");

    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, raw_frames_round_trip);
    tcase_add_test(tc, png_round_trip);
    tcase_add_loop_test(tc, mp4_round_trip, 0, sizeof mp4_cases / sizeof mp4_cases[0]);
    tcase_add_test(tc, mp4_is_deterministic);
    tcase_add_test(tc, mp4_is_whole_and_its_own);
    tcase_add_test(tc, mp4_reads_its_own_memory);
    tcase_add_test(tc, mp4_on_a_full_disk);
    tcase_add_test(tc, mp4_that_cannot_be_continued);
    tcase_add_test(tc, mp4_cut_short_is_refused);
    tcase_add_test(tc, paths_that_cannot_be_used_are_named);
    tcase_add_test(tc, arguments_out_of_bounds_are_refused);
    tcase_add_test(tc, sheet_shows_first_and_last_frames);
    tcase_add_test(tc, font_stays_inside_the_canvas);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
