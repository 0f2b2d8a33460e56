#include "base/secret.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (length + page - 1) / page * page;

	assert(bytes >= length);
	return bytes > 0 ? bytes : page;
}

void *kw_secret_try(size_t length)
{
	size_t bytes = whole_pages(length);
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	(void)madvise(pages, bytes, MADV_DONTDUMP);
	return pages;
}

void *kw_secret_new(size_t length)
{
	void *pages = kw_secret_try(length);

	if (!pages)
		kw_out_of_memory(length);
	return pages;
}

void kw_secret_free(void *bytes, size_t length)
{
	if (!bytes)
		return;
	/* The kernel clears pages before it hands them on, but not before it takes them. */
	explicit_bzero(bytes, length);
	munmap(bytes, whole_pages(length));
}

struct kw_slice kw_secret_copy(struct kw_slice bytes)
{
	void *copy;

	if (bytes.length == 0)
		return (struct kw_slice){0};
	copy = kw_secret_new(bytes.length);
	memcpy(copy, bytes.data, bytes.length);
	return kw_slice(copy, bytes.length);
}

void kw_secret_close(struct kw_slice *copy)
{
	kw_secret_free((void *)(uintptr_t)copy->data, copy->length);
	*copy = (struct kw_slice){0};
}

void kw_secret_close_buffer(struct kw_buffer *buffer)
{
	if (buffer->data)
		explicit_bzero(buffer->data, buffer->capacity);
	kw_buffer_close(buffer);
}
