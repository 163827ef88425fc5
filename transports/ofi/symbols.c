/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts libfabric without reading the kernel's symbols.
 *
 * When libfabric 1.17 starts, its provider verbs reads all of /proc/kallsyms twice, to learn
 * whether the kernel can register GPU memory: 90 ms of CPU time in each process. Without an RDMA
 * device the answer is useless. On such a host this file redirects libfabric's relocated reference
 * to fopen while libfabric starts, so that it finds no such file. Hosts with an RDMA device are
 * unaffected.
 *
 * No documented way exists: libfabric initializes each built-in provider before it looks at
 * FI_PROVIDER (also =^verbs), FI_HOOK or the hints, and FI_VERBS_USE_DMABUF is read, but the file
 * is too (tried with 1.17). Those would have to be set in the environment besides, which a library
 * must not do.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transports/ofi/ofi.h"

typedef FILE *fopen_fn(const char *path, const char *mode);

/* libfabric's references to fopen, mostly one. */
#define SLOTS_MAX 4
struct slots {
	fopen_fn **at[SLOTS_MAX];
	int n;
	uintptr_t relro, relro_end; /* read-only since it was relocated */
};

static FILE *fopen_no_symbols(const char *path, const char *mode)
{
	if (strcmp(path, "/proc/kallsyms"))
		return fopen(path, mode);
	errno = ENOENT;
	return NULL;
}

static void scan(const struct dl_phdr_info *info, const ElfW(Rela) * rela, size_t size,
		 const ElfW(Sym) * symbols, const char *names, struct slots *slots)
{
	const ElfW(Rela) *end = rela + size / sizeof(*rela);
	fopen_fn **at;

	for (; rela < end && slots->n < SLOTS_MAX; rela++) {
		if (strcmp(names + symbols[ELF64_R_SYM(rela->r_info)].st_name, "fopen"))
			continue;
		at = (fopen_fn **)(info->dlpi_addr + rela->r_offset);
		if (*at == fopen)
			slots->at[slots->n++] = at;
	}
}

/* The loader has made some entries of the dynamic section addresses. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static int find_slots(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Phdr) * p, *end = info->dlpi_phdr + info->dlpi_phnum;
	const ElfW(Dyn) *d = NULL;
	ElfW(Addr) value[DT_JMPREL + 1] = {0};
	struct slots *slots = arg;

	if (sizeof(void *) != 8 || !info->dlpi_name || !strstr(info->dlpi_name, "/libfabric.so."))
		return 0;
	for (p = info->dlpi_phdr; p < end; p++) {
		if (p->p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + p->p_vaddr);
		if (p->p_type == PT_GNU_RELRO) {
			slots->relro = info->dlpi_addr + p->p_vaddr;
			slots->relro_end = slots->relro + p->p_memsz;
		}
	}
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag > 0 && d->d_tag <= DT_JMPREL)
			value[d->d_tag] = d->d_un.d_val;
	if (!value[DT_SYMTAB] || !value[DT_STRTAB])
		return 1;
	if (value[DT_RELA])
		scan(info, address(info, value[DT_RELA]), value[DT_RELASZ],
		     address(info, value[DT_SYMTAB]), address(info, value[DT_STRTAB]), slots);
	if (value[DT_JMPREL] && value[DT_PLTREL] == DT_RELA)
		scan(info, address(info, value[DT_JMPREL]), value[DT_PLTRELSZ],
		     address(info, value[DT_SYMTAB]), address(info, value[DT_STRTAB]), slots);
	return 1;
}

static void lead_to(const struct slots *slots, fopen_fn *fn)
{
	uintptr_t mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1), at;
	size_t page = ~mask + 1;
	int i;

	for (i = 0; i < slots->n; i++) {
		at = (uintptr_t)slots->at[i];
		if (mprotect((void *)(at & mask), page, PROT_READ | PROT_WRITE))
			continue;
		__atomic_store_n(slots->at[i], fn, __ATOMIC_RELEASE);
		if (at >= slots->relro && at < slots->relro_end)
			mprotect((void *)(at & mask), page, PROT_READ);
	}
}

void ofi_start(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool started;
	struct slots slots = {.n = 0};
	struct fi_info *info = NULL;

	pthread_mutex_lock(&lock);
	if (!started && !tt_transport_rdma())
		dl_iterate_phdr(find_slots, &slots);
	lead_to(&slots, fopen_no_symbols);
	if (slots.n && !fi_getinfo(OFI_API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info))
		fi_freeinfo(info);
	lead_to(&slots, fopen);
	started = true;
	pthread_mutex_unlock(&lock);
}
