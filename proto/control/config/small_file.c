#include "control/config/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_OF_OTHERS 007U
#define MODE_OF_SECRETS 027U

static int check_owner(
	const struct stat *info, const char *file, const char *what, struct kw_error *error)
{
	if (info->st_uid == 0 || info->st_uid == geteuid())
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"%s %s belongs to user %u, who could change it: chown root %s", what, file,
		(unsigned)info->st_uid, file);
}

static int check_mode(const struct stat *info, enum kw_file_care care, const char *file,
	const char *what, struct kw_error *error)
{
	unsigned mode = info->st_mode & 07777;

	if (care != KW_FILE_ANY && mode & MODE_OF_OTHERS)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s is open to every user (mode %04o): chmod o-rwx %s", what, file, mode,
			file);
	if (care == KW_FILE_SECRET && mode & MODE_OF_SECRETS)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s can be changed by its group (mode %04o): chmod g-w %s", what, file,
			mode, file);
	return care == KW_FILE_SECRET ? check_owner(info, file, what, error) : KW_OK;
}

/* A regular file of at most `most` bytes, in the right hands; the sentence says what else. */
static int check_file(int fd, const char *file, size_t most, enum kw_file_care care,
	const char *what, struct kw_error *error)
{
	struct stat info;

	if (fstat(fd, &info))
		return kw_error_errno(error, errno, "cannot look at %s %s", what, file);
	if (!S_ISREG(info.st_mode))
		return kw_error_set(error, KW_E_CONFIG, "%s %s is not a regular file", what, file);
	if (check_mode(&info, care, file, what, error))
		return KW_E_CONFIG;
	if ((uint64_t)info.st_size > most)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s has %lld bytes; at most %zu are read: is it the right file?", what,
			file, (long long)info.st_size, most);
	return 0;
}

int kw_small_file_read(const char *file, size_t most, enum kw_file_care care, const char *what,
	struct kw_buffer *out, struct kw_error *error)
{
	/* Non-blocking, so that opening a FIFO cannot hang the daemon's start. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t total = 0;
	ssize_t got;
	int code;

	if (fd < 0) {
		kw_error_errno(error, errno, "cannot open %s %s", what, file);
		if (error)
			error->code = KW_E_CONFIG;
		return KW_E_CONFIG;
	}
	code = check_file(fd, file, most, care, what, error);
	/* One byte more than allowed may be read: the file might have grown since. */
	while (!code && total <= most) {
		got = read(fd, kw_buffer_reserve(out, most + 1 - total), most + 1 - total);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			code = kw_error_errno(error, errno, "cannot read %s %s", what, file);
		if (got <= 0)
			break;
		kw_buffer_filled(out, (size_t)got);
		total += (size_t)got;
	}
	if (!code && total > most)
		code = kw_error_set(
			error, KW_E_CONFIG, "%s %s has more than %zu bytes", what, file, most);
	close(fd);
	return code;
}
