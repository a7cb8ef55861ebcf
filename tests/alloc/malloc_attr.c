/* SPDX-License-Identifier: MIT
 *
 * malloc_attr.so: counts who takes heap memory, from outside. Preloaded into a program, it stands before the
 * C library's allocator and books each call on the object (the program, or a shared library) that made it.
 * Calls that the C library makes itself (strdup, fopen, pthread_create) are booked on the object that called
 * the C library; so nobody takes memory unseen by asking somebody else to.
 *
 * The counts lie in the file named by MALLOC_ATTR_FILE, which is mapped shared: whoever reads the file reads
 * the counts as they are now, and a program that forks goes on counting in the same file. The file is an
 * array of struct count, in the machine's byte order, until a name is empty. The book is kept without locks
 * and without taking memory itself.
 */
#include <assert.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNTS_MAX = 64, RANGES_MAX = 256, FRAMES_MAX = 24 };

struct count {
	char name[64]; /* the object's file name without its directory; "program" for the program itself */
	_Atomic uint64_t mallocs;
	_Atomic uint64_t callocs;
	_Atomic uint64_t reallocs;
	_Atomic uint64_t aligneds;
	_Atomic uint64_t frees;
	_Atomic uint64_t bytes; /* asked for */
};
static_assert(sizeof(struct count) == 112, "tests/alloc/alloc.py reads it with this size");

struct range {
	uintptr_t from, to; /* of an object's mapped segments */
	struct count *count;
};

/* The C library's allocator, by the names that it keeps for those who stand before it. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

int posix_memalign(void **out, size_t align, size_t size);

static struct count *counts; /* NULL: not counting (yet) */
static struct range ranges[RANGES_MAX];
static _Atomic unsigned int nranges;
static struct count *libc_count;
static atomic_flag filling = ATOMIC_FLAG_INIT;
static __thread bool inside; /* this thread is keeping the book: what the unwinder takes is not booked */

static struct count *count_named(const char *name)
{
	for (unsigned int i = 0; i < COUNTS_MAX - 1; i++) {
		if (!counts[i].name[0])
			strncpy(counts[i].name, name, sizeof counts[i].name - 1);
		if (!strncmp(counts[i].name, name, sizeof counts[i].name - 1))
			return &counts[i];
	}
	return NULL;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	unsigned int *n = ctx;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	struct count *count = count_named(name[0] ? name : "program");
	if (!strncmp(name, "libc.so", 7))
		libc_count = count;
	for (unsigned int i = 0; i < info->dlpi_phnum && *n < RANGES_MAX; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		uintptr_t from = info->dlpi_addr + ph->p_vaddr;
		ranges[(*n)++] = (struct range){from, from + ph->p_memsz, count};
	}
	return 0;
}

/* Objects may be loaded later; then the list is made anew. Readers see only whole entries: those below
 * nranges. */
static void list_objects(void)
{
	if (atomic_flag_test_and_set(&filling))
		return;
	unsigned int n = 0;
	dl_iterate_phdr(add_object, &n);
	atomic_store(&nranges, n);
	atomic_flag_clear(&filling);
}

static struct count *count_of(uintptr_t address)
{
	unsigned int n = atomic_load(&nranges);
	for (unsigned int i = 0; i < n; i++)
		if (address >= ranges[i].from && address < ranges[i].to)
			return ranges[i].count;
	return NULL;
}

static void start(void)
{
	const char *path = getenv("MALLOC_ATTR_FILE");
	if (!path)
		return;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	size_t size = COUNTS_MAX * sizeof *counts;
	void *map = ftruncate(fd, (off_t)size) ? MAP_FAILED
					       : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return;
	/* The unwinder takes memory when it is first used. */
	void *frames[2];
	inside = true;
	backtrace(frames, 2);
	counts = map;
	list_objects();
	inside = false;
}

__attribute__((constructor)) static void on_load(void)
{
	start();
}

/* Who is responsible for the call that returns to caller: the first object up the stack that is not the C
 * library. */
static struct count *responsible(void *caller)
{
	struct count *direct = count_of((uintptr_t)caller);
	if (!direct) {
		list_objects();
		direct = count_of((uintptr_t)caller);
	}
	if (direct != libc_count)
		return direct;
	void *frames[FRAMES_MAX];
	int n = backtrace(frames, FRAMES_MAX);
	bool below = true; /* we are still in this file's own frames */
	for (int i = 0; i < n; i++) {
		struct count *c = count_of((uintptr_t)frames[i]);
		if (c == libc_count)
			below = false;
		else if (!below && c)
			return c;
	}
	return direct;
}

/* Books one call; gives where to add further, or NULL when it does not count. */
static void book(void *caller, size_t which, size_t bytes)
{
	if (!counts || inside)
		return;
	inside = true;
	struct count *c = responsible(caller);
	if (c) {
		atomic_fetch_add((_Atomic uint64_t *)((char *)c + which), 1);
		atomic_fetch_add(&c->bytes, bytes);
	}
	inside = false;
}

#define BOOK(member, bytes) book(__builtin_return_address(0), offsetof(struct count, member), bytes)

void *malloc(size_t size)
{
	BOOK(mallocs, size);
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	BOOK(callocs, n * size);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	BOOK(reallocs, size);
	return __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	BOOK(reallocs, bytes);
	return __libc_realloc(p, bytes);
}

void *memalign(size_t align, size_t size)
{
	BOOK(aligneds, size);
	return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	BOOK(aligneds, size);
	return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	if (align % sizeof(void *) || (align & (align - 1)) || !align)
		return EINVAL;
	BOOK(aligneds, size);
	void *p = __libc_memalign(align, size);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

void free(void *p)
{
	if (p)
		BOOK(frees, 0);
	__libc_free(p);
}
