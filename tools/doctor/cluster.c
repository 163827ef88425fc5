/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several hosts: one agent on each, through the remote shell. Compared between them: versions,
 * clocks, MTUs; and whether each host reaches each other one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "tools/doctor/doctor.h"

#define LINE_MAX_BYTES 262144
#define SKEW_S 1.0

struct member {
	const struct host *host;
	pid_t pid;
	int to, from;
	char *line; /* LINE_MAX_BYTES */
	size_t len;
	json_t *hello; /* NULL: it does not answer */
};

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* The same program there if it exists, else that of PATH. */
static void exec_agent(const struct host *host, const char *ssh)
{
	char self[2048] = "", command[4400], *copy = must_strdup(ssh), *argv[40], *word;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int n = 0;

	if (len <= 0 || strpbrk(self, "'"))
		snprintf(self, sizeof(self), "tutti_doctor");
	if (host->local) {
		execl(self, "tutti_doctor", "--agent", NULL);
		_exit(127);
	}
	for (word = strtok(copy, " \t"); word && n < 37; word = strtok(NULL, " \t"))
		argv[n++] = word;
	snprintf(command, sizeof(command),
		 "sh -c 'p=\"%s\"; test -x \"$p\" || p=tutti_doctor; exec \"$p\" --agent'", self);
	argv[n++] = host->name;
	argv[n++] = command;
	argv[n] = NULL;
	execvp(argv[0], argv);
	fail("cannot run the remote shell %s: %s", argv[0], strerror(errno));
	_exit(127);
}

static int start(struct member *m, const struct host *host, const char *ssh)
{
	int in[2], out[2];

	m->host = host;
	m->line = must_alloc(LINE_MAX_BYTES);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return fail("pipe: %s", strerror(errno));
	m->pid = fork();
	if (!m->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(in[0], 0) >= 0 && dup2(out[1], 1) >= 0)
			exec_agent(host, ssh);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	m->to = in[1];
	m->from = out[0];
	return m->pid < 0 ? fail("fork: %s", strerror(errno)) : 0;
}

/* The next line of JSON, NULL: none until end; what is there already counts after it too. */
static json_t *answer(struct member *m, int64_t end)
{
	struct pollfd p = {.fd = m->from, .events = POLLIN};
	char *newline;
	json_t *v;
	ssize_t n;

	while (!(newline = memchr(m->line, '\n', m->len))) {
		int64_t left = end - now_ms();

		if (m->len == LINE_MAX_BYTES || poll(&p, 1, left > 0 ? (int)left : 0) <= 0)
			return NULL;
		n = read(m->from, m->line + m->len, LINE_MAX_BYTES - m->len);
		if (n <= 0)
			return NULL;
		m->len += (size_t)n;
	}
	v = json_loadb(m->line, (size_t)(newline - m->line), 0, NULL);
	m->len -= (size_t)(newline + 1 - m->line);
	memmove(m->line, newline + 1, m->len);
	return v;
}

static void ask(struct member *m, json_t *question)
{
	char *text = json_dumps(question, JSON_COMPACT);

	if (text)
		dprintf(m->to, "%s\n", text); /* a failure shows as a missing answer */
	free(text);
}

static void at(struct findings *f, const struct member *m)
{
	snprintf(f->host, sizeof(f->host), "%s", m->host->name);
}

static void greet(struct findings *f, struct member *m, int64_t end)
{
	const char *version = "";

	at(f, m);
	m->hello = answer(m, end);
	if (!m->hello || json_unpack(m->hello, "{s:s}", "version", &version)) {
		json_decref(m->hello);
		m->hello = NULL;
		found(f, "ssh", LEVEL_FAIL, "no rank starts there",
		      "ssh HOST tutti_doctor; ssh-copy-id HOST; install tutti there",
		      "tutti_doctor does not answer there over the remote shell");
		return;
	}
	if (!m->host->local)
		found_ok(f, "ssh", "the remote shell starts tutti_doctor");
	findings_add_json(f, json_object_get(m->hello, "findings"));
	if (strcmp(version, tutti_version()))
		found(f, "versions", LEVEL_FAIL, "jobs over both hosts do not start",
		      "install the same packages on all hosts", "tutti %s is there, %s here",
		      version, tutti_version());
}

static void compare_clock(struct findings *f, struct member *m, int64_t end)
{
	json_t *question = json_pack("{s:s}", "ask", "time"), *v;
	double before = seconds(), after, now, skew;

	ask(m, question);
	json_decref(question);
	v = answer(m, end);
	after = seconds();
	if (!v || json_unpack(v, "{s:F}", "now", &now)) {
		json_decref(v);
		return;
	}
	json_decref(v);
	skew = now - (before + after) / 2;
	at(f, m);
	if ((skew < 0 ? -skew : skew) > SKEW_S + (after - before) / 2)
		found(f, "skew", LEVEL_WARN,
		      "logs, dumps and traces of the hosts cannot be put in order",
		      "chronyc makestep, or timedatectl set-ntp true",
		      "its clock differs by %.1f s from that of this host", skew);
	else
		found_ok(f, "skew", "its clock differs by %.0f ms, measured to %.0f ms", skew * 1e3,
			 (after - before) * 5e2);
}

static void compare_mtu(struct findings *f, struct member *m, const struct member *first)
{
	int mine = 0, its = 0;

	json_unpack(m->hello, "{s:i}", "mtu", &mine);
	json_unpack(first->hello, "{s:i}", "mtu", &its);
	at(f, m);
	if (mine != its)
		found(f, "mtu", LEVEL_WARN, "large packets are lost or cut: transfers stall",
		      "ip link set dev NAME mtu VALUE, the same everywhere",
		      "the MTU is %d bytes, but %d on %s", mine, its, first->host->name);
}

/* Both ways, as every host connects to every other one. */
static void compare_paths(struct findings *f, struct member *m, json_t *peers, int64_t end)
{
	json_t *v = answer(m, end), *failed = json_object_get(v, "failed"), *one;
	const char *host, *why;
	size_t i;

	at(f, m);
	if (!json_is_array(failed))
		found(f, "firewall", LEVEL_FAIL, "jobs over these hosts do not start",
		      "ssh HOST tutti_doctor", "no answer within the time limit");
	else if (!json_array_size(failed))
		found_ok(f, "firewall", "reaches %zu addresses", json_array_size(peers));
	json_array_foreach(failed, i, one)
	{
		if (!json_unpack(one, "{s:s, s:s}", "host", &host, "why", &why))
			found(f, "firewall", LEVEL_FAIL, "jobs over these hosts do not start",
			      "open TCP ports 32768-60999 (net.ipv4.ip_local_port_range) between "
			      "the hosts, or name the right network: TUTTI_IF",
			      "cannot connect to %s: %s", host, why);
	}
	json_decref(v);
}

static json_t *list_peers(const struct member *all, int n)
{
	json_t *peers = json_array();
	const char *address;
	int i, port;

	for (i = 0; i < n; i++)
		if (all[i].hello &&
		    !json_unpack(all[i].hello, "{s:s, s:i}", "address", &address, "port", &port))
			json_array_append_new(peers, json_pack("{s:s, s:s, s:i}", "host",
							       all[i].host->name, "address",
							       address, "port", port));
	return peers;
}

static void stop(struct member *m)
{
	close(m->to);
	close(m->from);
	kill(m->pid, SIGTERM);
	waitpid(m->pid, NULL, 0);
	json_decref(m->hello);
	free(m->line);
}

int check_cluster(struct findings *f, const struct hosts *hosts, const char *ssh, int64_t ms)
{
	struct member *all = must_alloc((size_t)hosts->n * sizeof(*all)), *first = NULL, *m;
	int64_t end = now_ms() + ms;
	json_t *peers, *question;
	int n = 0;

	signal(SIGPIPE, SIG_IGN);
	while (n < hosts->n && !start(&all[n], &hosts->v[n], ssh))
		n++;
	for (m = all; m < all + n; m++)
		greet(f, m, end - ms / 2); /* a silent host leaves the others half of the time */
	peers = list_peers(all, n);
	question = json_pack("{s:s, s:O}", "ask", "peers", "peers", peers);
	for (m = all; m < all + n; m++) {
		if (!m->hello)
			continue;
		compare_clock(f, m, end);
		compare_mtu(f, m, first ? first : m);
		first = first ? first : m;
		ask(m, question);
	}
	for (m = all; m < all + n; m++)
		if (m->hello)
			compare_paths(f, m, peers, end);
	for (m = all; m < all + n; m++)
		stop(m);
	json_decref(question);
	json_decref(peers);
	free(all);
	return n == hosts->n ? 0 : -1;
}
