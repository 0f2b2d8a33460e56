/*
 * The names of libc that these definitions get are those that callers use: with the build's
 * _FILE_OFFSET_BITS=64 open64 and its kin.
 */
#include "points.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum point {
	P_MALLOC,
	P_MMAP,
	P_MEMFD_CREATE,
	P_FTRUNCATE,
	P_FCHMOD,
	P_FALLOCATE,
	P_OPEN,
	P_FCNTL,
	P_WRITE,
	P_FSYNC,
	P_LINKAT,
	P_RENAME,
	P_SOCKET,
	P_BIND,
	P_LISTEN,
	P_CONNECT,
	P_ACCEPT4,
	P_GETSOCKNAME,
	P_GETPEERNAME,
	P_SEND,
	P_SENDMSG,
	P_READ,
	P_RECV,
	P_RECVMSG,
	P_EPOLL_CREATE1,
	P_EPOLL_CTL,
	P_EVENTFD,
	P_PTHREAD_CREATE,
	P_GETRANDOM,
	P_GETADDRINFO,
	POINTS,
};

const char *const kw_point_names[] = {
	[P_MALLOC] = "malloc",
	[P_MMAP] = "mmap",
	[P_MEMFD_CREATE] = "memfd_create",
	[P_FTRUNCATE] = "ftruncate",
	[P_FCHMOD] = "fchmod",
	[P_FALLOCATE] = "fallocate",
	[P_OPEN] = "open",
	[P_FCNTL] = "fcntl",
	[P_WRITE] = "write",
	[P_FSYNC] = "fsync",
	[P_LINKAT] = "linkat",
	[P_RENAME] = "rename",
	[P_SOCKET] = "socket",
	[P_BIND] = "bind",
	[P_LISTEN] = "listen",
	[P_CONNECT] = "connect",
	[P_ACCEPT4] = "accept4",
	[P_GETSOCKNAME] = "getsockname",
	[P_GETPEERNAME] = "getpeername",
	[P_SEND] = "send",
	[P_SENDMSG] = "sendmsg",
	[P_READ] = "read",
	[P_RECV] = "recv",
	[P_RECVMSG] = "recvmsg",
	[P_EPOLL_CREATE1] = "epoll_create1",
	[P_EPOLL_CTL] = "epoll_ctl",
	[P_EVENTFD] = "eventfd",
	[P_PTHREAD_CREATE] = "pthread_create",
	[P_GETRANDOM] = "getrandom",
	[P_GETADDRINFO] = "getaddrinfo",
	[POINTS] = NULL,
};

static struct {
	_Atomic int point; /* enum point; -1: none */
	_Atomic long left; /* calls until it fires; below 1: fired, or goes on firing */
	_Atomic bool every;
	_Atomic bool fired;
	int errnum;
	unsigned n;
} armed = {.point = -1};

static _Atomic unsigned short_most, interrupt_every;
static _Atomic unsigned dice = 12345;
static int log_fd = -1;

/* ---- when a point fires ---- */

static void tell(enum point point)
{
	char line[64];
	int length;

	if (log_fd < 0)
		return;
	length = snprintf(line, sizeof line, "%s %u\n", kw_point_names[point], armed.n);
	(void)!syscall(SYS_write, log_fd, line, (size_t)length);
}

static bool fires(enum point point)
{
	long left;

	if (atomic_load_explicit(&armed.point, memory_order_acquire) != (int)point)
		return false;
	left = atomic_fetch_sub(&armed.left, 1);
	if (left > 1 || (left < 1 && !armed.every))
		return false;
	if (!atomic_exchange(&armed.fired, true))
		tell(point);
	errno = armed.errnum;
	return true;
}

void kw_point_arm(const char *name, unsigned n, int errnum)
{
	int point = 0;

	atomic_store(&armed.point, -1);
	armed.fired = false;
	while (point < POINTS && strcmp(kw_point_names[point], name) != 0)
		point++;
	if (n == 0)
		return;
	if (point == POINTS) {
		fprintf(stderr, "points: there is no point %s\n", name);
		abort();
	}
	armed.n = n;
	armed.errnum = errnum;
	armed.every = false;
	armed.fired = false;
	atomic_store(&armed.left, (long)n);
	atomic_store_explicit(&armed.point, point, memory_order_release);
}

bool kw_point_fired(void)
{
	return armed.fired;
}

void kw_point_short(unsigned most, unsigned interrupt)
{
	short_most = most;
	interrupt_every = interrupt;
}

static unsigned roll(unsigned bound)
{
	unsigned value = atomic_fetch_add(&dice, 0x9e3779b9U);

	value ^= value >> 15;
	value *= 0x2c1b3c6dU;
	value ^= value >> 12;
	return value % bound;
}

static bool interrupts(void)
{
	unsigned every = interrupt_every;

	if (every == 0 || roll(every) != 0)
		return false;
	errno = EINTR;
	return true;
}

static size_t shorten(size_t length)
{
	unsigned most = short_most;
	size_t take = most ? 1 + roll(most) : length;

	return take < length ? take : length;
}

/* An eventfd, a signalfd or a timer is read whole or not at all: it has no type of file. */
static size_t shorten_file(int fd, size_t length)
{
	struct stat info;

	if (!short_most || fstat(fd, &info) != 0 || (info.st_mode & S_IFMT) == 0)
		return length;
	return shorten(length);
}

/* ---- told by the environment ---- */

static int errno_of(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} known[] = {{"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EINTR", EINTR},
		{"EAGAIN", EAGAIN}, {"ECONNRESET", ECONNRESET}, {"EPIPE", EPIPE},
		{"EMFILE", EMFILE}, {"EPERM", EPERM}, {"EACCES", EACCES}, {"ENOSYS", ENOSYS},
		{"ENOBUFS", ENOBUFS}, {"ETIMEDOUT", ETIMEDOUT}, {"EDQUOT", EDQUOT}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].number;
	fprintf(stderr, "points: there is no errno %s\n", name);
	abort();
}

__attribute__((constructor)) static void begin(void)
{
	const char *point = getenv("KW_POINT"), *program = getenv("KW_POINT_PROGRAM");
	const char *most = getenv("KW_POINT_SHORT"), *interrupt = getenv("KW_POINT_EINTR");
	char name[32], errnum[32], plus[2] = "";
	unsigned n;

	if (program && strncmp(program_invocation_short_name, program, strlen(program)) != 0)
		return;
	if (getenv("KW_POINT_LOG"))
		log_fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("KW_POINT_LOG"),
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	kw_point_short(most ? (unsigned)atoi(most) : 0, interrupt ? (unsigned)atoi(interrupt) : 0);
	if (!point)
		return;
	if (sscanf(point, "%31[^:]:%u:%31s", name, &n, errnum) != 3 &&
		sscanf(point, "%31[^:]:%u%1[+]:%31s", name, &n, plus, errnum) != 4) {
		fprintf(stderr, "points: KW_POINT=%s is not NAME:N[+]:ERRNO\n", point);
		abort();
	}
	kw_point_arm(name, n, errno_of(errnum));
	armed.every = plus[0] != '\0';
}

/* ---- the functions ---- */

/* In front of libc: its own function is the next one of that name. */
#define NEXT(name, ...) ((__typeof__(&name))next(#name, &next_##name))(__VA_ARGS__)
#define KEEP(name) static void *next_##name

static void *next(const char *name, void **kept)
{
	void *found = __atomic_load_n(kept, __ATOMIC_RELAXED);

	if (!found) { /* whichever thread is first: all find the same */
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(kept, found, __ATOMIC_RELAXED);
	}
	return found;
}

#define PASS(point, type, failed, name, parameters, ...)                                           \
	KEEP(name);                                                                                \
	type name parameters                                                                       \
	{                                                                                          \
		if (fires(point))                                                                  \
			return failed;                                                             \
		return NEXT(name, __VA_ARGS__);                                                    \
	}

PASS(P_MMAP, void *, MAP_FAILED, mmap,
	(void *at, size_t length, int prot, int flags, int fd, off_t offset), at, length, prot,
	flags, fd, offset)
PASS(P_MEMFD_CREATE, int, -1, memfd_create, (const char *name, unsigned flags), name, flags)
PASS(P_FTRUNCATE, int, -1, ftruncate, (int fd, off_t length), fd, length)
PASS(P_FCHMOD, int, -1, fchmod, (int fd, mode_t mode), fd, mode)
PASS(P_FALLOCATE, int, -1, fallocate, (int fd, int mode, off_t offset, off_t length), fd, mode,
	offset, length)
PASS(P_FSYNC, int, -1, fsync, (int fd), fd)
PASS(P_LINKAT, int, -1, linkat, (int from, const char *old, int to, const char *name, int flags),
	from, old, to, name, flags)
PASS(P_RENAME, int, -1, rename, (const char *from, const char *to), from, to)
PASS(P_SOCKET, int, -1, socket, (int domain, int type, int protocol), domain, type, protocol)
PASS(P_BIND, int, -1, bind, (int fd, const struct sockaddr *address, socklen_t length), fd, address,
	length)
PASS(P_LISTEN, int, -1, listen, (int fd, int backlog), fd, backlog)
PASS(P_CONNECT, int, -1, connect, (int fd, const struct sockaddr *address, socklen_t length), fd,
	address, length)
PASS(P_ACCEPT4, int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
	fd, address, length, flags)
PASS(P_GETSOCKNAME, int, -1, getsockname, (int fd, struct sockaddr *address, socklen_t *length), fd,
	address, length)
PASS(P_GETPEERNAME, int, -1, getpeername, (int fd, struct sockaddr *address, socklen_t *length), fd,
	address, length)
PASS(P_EPOLL_CREATE1, int, -1, epoll_create1, (int flags), flags)
PASS(P_EPOLL_CTL, int, -1, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
	epoll, what, fd, event)
PASS(P_EVENTFD, int, -1, eventfd, (unsigned count, int flags), count, flags)
PASS(P_PTHREAD_CREATE, int, armed.errnum, pthread_create,
	(pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
	thread, attributes, run, arg)
PASS(P_GETRANDOM, ssize_t, -1, getrandom, (void *to, size_t length, unsigned flags), to, length,
	flags)
PASS(P_GETADDRINFO, int, EAI_AGAIN, getaddrinfo,
	(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found),
	node, service, hints, found)

/* Those with a variable argument. */

KEEP(open);
int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (fires(P_OPEN))
		return -1;
	return NEXT(open, path, flags, mode);
}

KEEP(fcntl);
int fcntl(int fd, int what, ...)
{
	void *arg;
	va_list args;

	va_start(args, what);
	arg = va_arg(args, void *);
	va_end(args);
	if (fires(P_FCNTL))
		return -1;
	return NEXT(fcntl, fd, what, arg);
}

/* Reads and writes, which can be short too. */

#define MOVE(point, name, parameters, ...)                                                         \
	KEEP(name);                                                                                \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		if (fires(point) || interrupts())                                                  \
			return -1;                                                                 \
		return NEXT(name, __VA_ARGS__);                                                    \
	}

MOVE(P_READ, read, (int fd, void *to, size_t length), fd, to, shorten_file(fd, length))
MOVE(P_WRITE, write, (int fd, const void *from, size_t length), fd, from, shorten_file(fd, length))
MOVE(P_RECV, recv, (int fd, void *to, size_t length, int flags), fd, to, shorten(length), flags)
MOVE(P_SEND, send, (int fd, const void *from, size_t length, int flags), fd, from, shorten(length),
	flags)

/* The first bytes of a vector: whole parts, and the last of them cut. */
#define PARTS_MAX 64

static int cut(const struct iovec *parts, size_t count, struct iovec *few)
{
	size_t left = 0;
	int taken = 0;

	for (size_t i = 0; i < count; i++)
		left += parts[i].iov_len;
	left = shorten(left);
	for (size_t i = 0; i < count && taken < PARTS_MAX && left > 0; i++) {
		few[taken] = parts[i];
		if (few[taken].iov_len > left)
			few[taken].iov_len = left;
		left -= few[taken++].iov_len;
	}
	return taken;
}

#define MOVE_VECTOR(point, name)                                                                   \
	KEEP(name);                                                                                \
	ssize_t name(int fd, const struct iovec *parts, int count)                                 \
	{                                                                                          \
		struct iovec few[PARTS_MAX];                                                       \
                                                                                                   \
		if (fires(point) || interrupts())                                                  \
			return -1;                                                                 \
		if (!short_most)                                                                   \
			return NEXT(name, fd, parts, count);                                       \
		return NEXT(name, fd, few, cut(parts, (size_t)count, few));                        \
	}

MOVE_VECTOR(P_READ, readv)
MOVE_VECTOR(P_WRITE, writev)

KEEP(sendmsg);
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct msghdr less = *message;
	struct iovec few[PARTS_MAX];

	if (fires(P_SENDMSG) || interrupts())
		return -1;
	if (short_most) {
		less.msg_iovlen = (size_t)cut(message->msg_iov, message->msg_iovlen, few);
		less.msg_iov = few;
	}
	return NEXT(sendmsg, fd, &less, flags);
}

KEEP(recvmsg);
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct iovec few[PARTS_MAX], *parts = message->msg_iov;
	size_t count = message->msg_iovlen;
	ssize_t got;

	if (fires(P_RECVMSG) || interrupts())
		return -1;
	if (short_most) {
		message->msg_iovlen = (size_t)cut(parts, count, few);
		message->msg_iov = few;
	}
	got = NEXT(recvmsg, fd, message, flags);
	message->msg_iov = parts;
	message->msg_iovlen = count;
	return got;
}

/* Memory. Not beside a sanitizer, which has an allocator of its own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
	return fires(P_MALLOC) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return fires(P_MALLOC) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	return fires(P_MALLOC) ? NULL : __libc_realloc(memory, bytes);
}
#endif
