/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * Gives UCX's libraries functions of ours. A library calls another through a table that the dynamic linker fills in, by
 * the name of the function (ELF, "dynamic relocations"). This file changes these entries, of UCX's libraries only: no
 * other code of the process is concerned, also where another UCX is in it.
 */

struct wanted {
        const struct ucx_redirect *list;
        size_t n;
        const char *ucp_path; /* of the loaded libucp */
};

static void *instead_of(const struct wanted *wanted, const char *name)
{
        for (size_t i = 0; i < wanted->n; i++)
                if (strcmp(name, wanted->list[i].name) == 0)
                        return wanted->list[i].instead;
        return NULL;
}

/* ---- the entries of one library ---- */

/* What the dynamic linker knows of a library. Those of x86-64 and arm64 have relocations with an addend alone. */
struct library {
        uintptr_t base;
        uintptr_t read_only, read_only_end; /* what the dynamic linker has made read-only after it filled it in */
        const ElfW(Sym) * symbols;
        const char *names;
        struct {
                const ElfW(Rela) * first;
                size_t size; /* bytes */
        } data, calls;
};

static uintptr_t page_size(void)
{
        return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static uintptr_t page_of(uintptr_t address)
{
        return address & ~(page_size() - 1);
}

/* glibc has made these addresses absolute on most machines, musl on none. */
static const void *absolute(const struct library *library, uintptr_t address)
{
        return (const void *)(address < library->base ? library->base + address : address);
}

/* Finds the tables of a library: its symbols, their names, and the relocations of data and of calls. */
static void read_dynamic(struct library *library, const ElfW(Dyn) * dynamic)
{
        for (; dynamic->d_tag != DT_NULL; dynamic++) {
                uintptr_t value = dynamic->d_un.d_ptr;

                switch (dynamic->d_tag) {
                case DT_SYMTAB:
                        library->symbols = absolute(library, value);
                        break;
                case DT_STRTAB:
                        library->names = absolute(library, value);
                        break;
                case DT_RELA:
                        library->data.first = absolute(library, value);
                        break;
                case DT_RELASZ:
                        library->data.size = value;
                        break;
                case DT_JMPREL:
                        library->calls.first = absolute(library, value);
                        break;
                case DT_PLTRELSZ:
                        library->calls.size = value;
                        break;
                default:
                        break;
                }
        }
}

/* Other threads may call through the entry meanwhile. */
static void set_entry(const struct library *library, uintptr_t entry, void *function)
{
        uintptr_t page = page_of(entry);
        bool read_only = entry >= library->read_only && entry < library->read_only_end;

        if (atomic_load((void *_Atomic *)entry) == function) /* it was set before */
                return;
        if (read_only && mprotect((void *)page, page_size(), PROT_READ | PROT_WRITE) < 0) {
                log_event(LOG_WARN, "programs that this process starts inherit sockets of UCX: a page is read-only");
                return;
        }
        atomic_store((void *_Atomic *)entry, function);
        if (read_only)
                (void)mprotect((void *)page, page_size(), PROT_READ);
}

/* Sets each entry of a list that is bound to a wanted function's name. */
static void set_entries(const struct library *library, const ElfW(Rela) * first, size_t size,
                        const struct wanted *wanted)
{
        for (const ElfW(Rela) *r = first; r && r < first + size / sizeof(*r); r++) {
                const char *name = library->names + library->symbols[ELF64_R_SYM(r->r_info)].st_name;
                void *function = *name ? instead_of(wanted, name) : NULL;

                if (function)
                        set_entry(library, library->base + r->r_offset, function);
        }
}

/* ---- UCX's libraries ---- */

/* Whether the path is that of UCX's libraries or, in a folder there, of its modules. */
static bool is_of_ucx(const char *path, const char *ucp_path)
{
        const char *name = strrchr(path, '/'), *end = strrchr(ucp_path, '/');

        return name && end && strncmp(name, "/libuc", strlen("/libuc")) == 0 &&
               strncmp(path, ucp_path, (size_t)(end - ucp_path) + 1) == 0;
}

static int look_at_library(struct dl_phdr_info *info, size_t size, void *context)
{
        const struct wanted *wanted = context;
        struct library library = { .base = info->dlpi_addr };

        if (!is_of_ucx(info->dlpi_name, wanted->ucp_path))
                return 0;
        for (size_t i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &info->dlpi_phdr[i];

                if (part->p_type == PT_GNU_RELRO) {
                        library.read_only = page_of(library.base + part->p_vaddr);
                        library.read_only_end = page_of(library.base + part->p_vaddr + part->p_memsz);
                } else if (part->p_type == PT_DYNAMIC) {
                        read_dynamic(&library, (const void *)(library.base + part->p_vaddr));
                }
        }
        set_entries(&library, library.data.first, library.data.size, wanted);
        set_entries(&library, library.calls.first, library.calls.size, wanted);
        return 0;
}

void ucx_redirect(const struct ucx_redirect *list, size_t n)
{
        struct wanted wanted = { .list = list, .n = n };
        Dl_info ucp_library;

        if (!dladdr((void *)ucp.get_version, &ucp_library))
                return;
        wanted.ucp_path = ucp_library.dli_fname;
        (void)dl_iterate_phdr(look_at_library, &wanted);
}
