/* Where the daemon listens: is the place free, and may it be taken? Nothing stays behind. */
#include "doctor/internal.h"

#include <errno.h>
#include <libgen.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Does a process answer there? */
static bool answers(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool connected;

	if (fd < 0 || strlen(path) >= sizeof address.sun_path) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	strcpy(address.sun_path, path);
	/* A full queue of connections is an answer, too. */
	connected =
		connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN;
	close(fd);
	return connected;
}

static void judge_folder(
	struct kw_doctor *doctor, struct kw_check check, const char *path, const char *folder)
{
	struct kw_findings *findings = &doctor->findings;
	struct stat info;

	if (stat(folder, &info) || !S_ISDIR(info.st_mode))
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"the folder %s is not there", folder),
			strcmp(folder, "/run/keywake") == 0 ? "systemd-tmpfiles --create"
							    : "mkdir -p %s",
			folder);
	else if (access(folder, W_OK | X_OK))
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the user %u may make no file in the folder %s", geteuid(), folder),
			"chown the folder %s to the daemon's user, or run doctor as that user",
			folder);
	else
		kw_finding_add(findings, KW_FINDING_OK, check, "%s is free", path);
}

void kw_doctor_path(struct kw_doctor *doctor, const char *key, const char *path)
{
	const struct kw_check check = {"listens", key};
	char folder[300];
	struct stat info;

	snprintf(folder, sizeof folder, "%s", path);
	if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode)) {
		kw_finding_mend(kw_finding_add(&doctor->findings, KW_FINDING_WRONG, check,
					"%s is there, and is no socket", path),
			"%s = another path, or move that file away", key);
	} else if (answers(path)) {
		struct kw_finding *finding = kw_finding_add(&doctor->findings,
			doctor->running ? KW_FINDING_OK : KW_FINDING_WRONG, check, "%s answers: %s",
			path,
			doctor->running ? "the daemon runs" : "another process listens there");

		if (!doctor->running)
			kw_finding_mend(
				finding, "%s = another path; ss -lxp shows who has it", key);
	} else {
		judge_folder(doctor, check, path, dirname(folder));
	}
}

void kw_doctor_written(struct kw_doctor *doctor, const char *key, const char *path)
{
	const struct kw_check check = {"file", key};
	char copy[300];
	const char *folder;

	if (!*path)
		return;
	snprintf(copy, sizeof copy, "%s", path);
	folder = dirname(copy);
	if (access(folder, W_OK | X_OK) == 0)
		kw_finding_add(&doctor->findings, KW_FINDING_OK, check, "it can be written");
	else
		kw_finding_mend(kw_finding_add(&doctor->findings, KW_FINDING_WARNING, check,
					"the user %u may make no file in the folder %s: nothing "
					"can be saved",
					geteuid(), folder),
			"mkdir -p %s, and give it to the daemon's user", folder);
}

/* 0: it can be bound; else why not. Numbers only: a name could take long. */
static int try_bind(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *info;
	int fd, one = 1, errnum = 0;

	if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &info))
		return 0;
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (info->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
		errnum = bind(fd, info->ai_addr, info->ai_addrlen) ? errno : 0;
		close(fd);
	}
	freeaddrinfo(info);
	return errnum;
}

void kw_doctor_port(struct kw_doctor *doctor, const char *key, const char *host, const char *port)
{
	const struct kw_check check = {"listens", key};
	struct kw_findings *findings = &doctor->findings;
	int errnum = try_bind(host, port);

	if (errnum == 0)
		kw_finding_add(findings, KW_FINDING_OK, check, "port %s of %s is free", port, host);
	else if (errnum == EADDRINUSE && doctor->running)
		kw_finding_add(findings, KW_FINDING_OK, check, "port %s of %s: the daemon runs",
			port, host);
	else if (errnum == EADDRINUSE)
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"another process has port %s of %s", port, host),
			"%s = another port; ss -ltnp 'sport = :%s' shows who has it", key, port);
	else
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"port %s of %s cannot be listened on: %s", port, host,
					strerror(errnum)),
			errnum == EADDRNOTAVAIL
				? "%s = an address of this host (ip -br addr shows them)"
				: "%s = another address or port",
			key);
}
