/* sandbox_kernel.c - Landlock and seccomp through raw system calls, which libc does not wrap.
 *
 * Landlock (Linux 5.13) removes write access except below the allowed folders and for the named
 * devices. It covers truncate() only from ABI version 3 and TCP sockets only from ABI version 4, so
 * a seccomp filter refuses truncate() and all sockets except AF_UNIX. */
#include "harness/run/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#define OUR_ARCH 0
#endif

/* Access rights of Landlock ABI versions 2 and 3, defined here because an older linux/landlock.h
 * lacks them. */
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)

#define WRITE_FILE LANDLOCK_ACCESS_FS_WRITE_FILE
#define CHANGE_FOLDER                                                                              \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                              \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_SYM)

static int landlock_version(void)
{
    return (int)syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool kvr_sandbox_has_landlock(void)
{
    return OUR_ARCH != 0 && landlock_version() >= 1;
}

/* Allows `rights` below a path; a missing path needs no rule. */
static bool allow(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr beneath = { .allowed_access = rights };
    struct stat st;
    bool ok;

    beneath.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (beneath.parent_fd < 0)
        return errno == ENOENT;
    if (fstat(beneath.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
        beneath.allowed_access &= WRITE_FILE | TRUNCATE;
    ok = syscall(__NR_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0;
    close(beneath.parent_fd);
    return ok;
}

static bool keep_files(const char *scratch)
{
    /* Paths that remain writable: devices that store no data, shared memory and GPU devices. */
    static const char *const devices[] = { "/dev/null",
                                           "/dev/zero",
                                           "/dev/full",
                                           "/dev/random",
                                           "/dev/urandom",
                                           "/dev/shm",
                                           "/dev/nvidiactl",
                                           "/dev/nvidia-uvm",
                                           "/dev/nvidia-uvm-tools",
                                           "/dev/nvidia-modeset",
                                           "/dev/nvidia-caps",
                                           "/dev/kfd",
                                           "/dev/dri" };
    const int version = landlock_version();
    const uint64_t all =
        WRITE_FILE | CHANGE_FOLDER | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
    const struct landlock_ruleset_attr attr = { .handled_access_fs = all };
    const int rules = (int)syscall(__NR_landlock_create_ruleset, &attr, sizeof attr, 0);
    char gpu[] = "/dev/nvidia0";
    bool ok = rules >= 0 && allow(rules, scratch, all);

    for (size_t i = 0; ok && i < sizeof devices / sizeof *devices; i++)
        ok = allow(rules, devices[i], all);
    for (; ok && gpu[11] <= '9'; gpu[11]++)
        ok = allow(rules, gpu, all);
    ok = ok && syscall(__NR_landlock_restrict_self, rules, 0) == 0;
    if (rules >= 0)
        close(rules);
    return ok;
}

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define IF_IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), yes, no)
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (unsigned)(what))

/* Installs a seccomp filter that refuses truncate(), io_uring and all sockets except AF_UNIX.
 * io_uring could open sockets without the system call socket(). LOAD(args[0]) loads the low 32 bits
 * of the argument, because x86-64 and AArch64 are little-endian; socket() takes an int, so 32 bits
 * suffice. */
static bool keep_sockets(void)
{
    static struct sock_filter code[] = {
        LOAD(arch),
        IF_IS(OUR_ARCH, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef __x86_64__
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1), /* x32 system calls */
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
#endif
        IF_IS(__NR_truncate, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | EROFS),
        IF_IS(__NR_io_uring_setup, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        IF_IS(__NR_socket, 0, 3),
        LOAD(args[0]),
        IF_IS(AF_UNIX, 1, 0),
        ANSWER(SECCOMP_RET_ERRNO | EACCES),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };

    return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool kvr_sandbox_landlock(const char *scratch)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && keep_files(scratch) && keep_sockets();
}
