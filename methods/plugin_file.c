/* plugin_file.c - checks that a file is a complete shared object for this machine. The dynamic
 * loader does not check that the file contains all segments that its ELF headers specify. If the
 * file is truncated, an access to a missing segment would kill the process with SIGBUS. */
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/infile.h"
#include "methods/plugin_file.h"

enum { MAX_HEADERS = 256 };

static const char *check_elf(FILE *f, uint64_t size)
{
    const uint16_t one = 1;
    const int order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
    ElfW(Ehdr) own, h;
    FILE *self = fopen("/proc/self/exe", "rb");
    const bool known = self && fread(&own, sizeof own, 1, self) == 1;

    if (self)
        fclose(self);
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.e_ident, ELFMAG, SELFMAG))
        return "it is not an ELF file";
    if (h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        h.e_ident[EI_DATA] != order || (known && h.e_machine != own.e_machine))
        return "it was built for another processor, word size or byte order";
    if (h.e_type != ET_DYN)
        return "its ELF type is not ET_DYN; link it with -shared";
    if (h.e_phentsize != sizeof(ElfW(Phdr)))
        return "its program headers have a wrong size (field e_phentsize)";
    if (h.e_phnum > MAX_HEADERS)
        return "it has more than 256 program headers";
    for (int i = 0; i < h.e_phnum; i++) {
        ElfW(Phdr) p;

        if (fseek(f, (long)(h.e_phoff + (uint64_t)i * sizeof p), SEEK_SET) != 0 ||
            fread(&p, sizeof p, 1, f) != 1)
            return "it is truncated (it ends before the end of its program headers)";
        if (p.p_type == PT_LOAD && (p.p_offset > size || p.p_filesz > size - p.p_offset))
            return "it is truncated (it ends before the end of its segments)";
    }
    return NULL;
}

enum kvr_status kvr_plugin_check_file(const char *path)
{
    struct stat s;
    const char *wrong;
    FILE *f;
    enum kvr_status st = kvr_infile_open(&f, path);

    if (st != KVR_OK)
        return kvr_fail_prefix(st, "plug-in");
    wrong =
        fstat(fileno(f), &s) == 0 ? check_elf(f, (uint64_t)s.st_size) : "its size cannot be read";
    fclose(f);
    if (wrong)
        return kvr_fail(
            KVR_EFORMAT,
            "plug-in %s: the file is not a shared object that this program can load: %s", path,
            wrong);
    return KVR_OK;
}
