#include "remote/racy.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define KW_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KW_TSAN 1
#endif
#endif

#ifdef KW_TSAN

__attribute__((no_sanitize("thread"))) void kw_racy_copy(void *to, const void *from, size_t length)
{
	const uint8_t *in = from;
	uint8_t *out = to;

	/* Its own memcpy is intercepted, so words are moved one by one. */
	for (; length > 0 && ((uintptr_t)in & 7) != 0; length--)
		*out++ = __atomic_load_n(in++, __ATOMIC_RELAXED);
	for (; length >= 8; length -= 8, in += 8, out += 8) {
		uint64_t word =
			__atomic_load_n((const uint64_t *)(const void *)in, __ATOMIC_RELAXED);

		__builtin_memcpy(out, &word, sizeof word);
	}
	for (; length > 0; length--)
		*out++ = __atomic_load_n(in++, __ATOMIC_RELAXED);
}

/* The interceptor of sendmsg counts as a read of the bytes; the bare system call does not. */
ssize_t kw_racy_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return (ssize_t)syscall(SYS_sendmsg, fd, message, flags);
}

#else

void kw_racy_copy(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}

ssize_t kw_racy_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return sendmsg(fd, message, flags);
}

#endif
