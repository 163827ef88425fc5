/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and stops a process's part in bootstrap and control tree. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/spawn.h"
#include "lib/boot/rendezvous/bootdir.h"
#include "lib/boot/control/control.h"
#include "lib/boot/control/fork.h"
#include "lib/boot/control/ras.h"
#include "lib/boot/rendezvous/secure.h"
#include "lib/boot/control/control_tree.h"

#define OWN_FILES 4 /* epoll, eventfd, listener, tutti_ras */

int tt_boot_check_secret(const struct tt_boot_params *params, const struct sockaddr *sa)
{
	char text[64];

	if (params->have_secret || params->insecure || tt_addr_is_loopback(sa))
		return 0;
	tt_addr_text(sa, text, sizeof(text));
	return tt_fail(
		-TUTTI_EAUTH,
		"without a secret only loopback is used, not %s: give all ranks the same "
		"TUTTI_SECRET_FILE (or start them with tutti_run), or set TUTTI_INSECURE=1 to let "
		"any process that reaches this address join",
		text);
}

static void free_boot(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;
	int r;

	tt_list_each(pos, tmp, &b->outbox) free(tt_container(pos, struct tt_outmsg, node));
	free(b->spare);
	for (r = 0; b->ranks && r < b->nranks; r++) {
		free(b->ranks[r].host);
		free(b->ranks[r].card);
		free(b->ranks[r].gone_why);
	}
	free(b->ranks);
	free(b->child);
	tt_tree_settle(b, TT_NEVER);
	tt_listen_close(b);
	tt_ras_close(b);
	if (b->epfd >= 0)
		close(b->epfd);
	if (b->wakefd >= 0)
		close(b->wakefd);
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->cond);
	tt_boot_params_drop(&b->params);
	sodium_memzero(&b->self, sizeof(b->self));
	free(b);
}

static void set_times(struct tt_boot *b)
{
	int64_t limit = b->params.heartbeat_limit, beat = b->params.heartbeat;

	beat = beat < limit / 4 ? beat : limit / 4; /* several beats must fit into the limit */
	b->limit_ns = (uint64_t)limit * TT_MS;
	b->beat_ns = (uint64_t)beat * TT_MS;
	b->start_deadline = tt_deadline_ms(b->params.init_timeout);
}

static struct tt_boot *new_boot(const struct tt_boot_params *params)
{
	struct tt_boot *b = calloc(1, sizeof(*b));
	const char *version =
		getenv("TUTTI_TEST_BOOT_VERSION"); /* lets tests pretend to be another version */
	pthread_condattr_t attr;

	if (!b)
		return NULL;
	b->params = *params;
	b->rank = b->self.rank = params->rank;
	b->nranks = b->self.nranks = params->nranks;
	snprintf(b->self.version, sizeof(b->self.version), "%s",
		 version ? version : tutti_version());
	memcpy(b->self.job, params->job, sizeof(b->self.job));
	memcpy(b->self.secret, params->secret, sizeof(b->self.secret));
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->cond, &attr);
	pthread_condattr_destroy(&attr);
	tt_list_init(&b->outbox);
	tt_list_init(&b->links);
	tt_list_init(&b->graves);
	tt_list_init(&b->watches);
	tt_list_init(&b->held);
	b->epfd = b->wakefd = b->listenfd = b->ras_fd = b->ras_key = -1;
	b->nchildren = tt_tree_children(b->rank, b->nranks);
	b->solo = params->nranks == 1;
	set_times(b);
	if (gethostname(b->host, sizeof(b->host) - 1))
		snprintf(b->host, sizeof(b->host), "unknown");
	b->ranks = calloc((size_t)params->nranks, sizeof(*b->ranks));
	b->child = calloc((size_t)b->nchildren + 1, sizeof(*b->child));
	b->spare = malloc(sizeof(struct tt_outmsg) + TT_CTL_MSG_MAX);
	if (!b->ranks || !b->child || !b->spare || tt_tree_entry(b, b->rank, b->host, "", 0)) {
		b->params.listen_fd = -1; /* the caller closes it */
		free_boot(b);
		return NULL;
	}
	return b;
}

/* Rank 0 listens at the address that the other ranks were given. */
static int open_store(struct tt_boot *b)
{
	struct tt_addr addrs[TT_ADDR_MAX];
	char text[64];
	int n, err;

	if (b->params.listen_fd >= 0) {
		b->listenfd = b->params.listen_fd;
		b->params.listen_fd = -1;
		b->local.len = sizeof(b->local.sa);
		if (getsockname(b->listenfd, (struct sockaddr *)&b->local.sa, &b->local.len))
			return tt_fail(-errno, "the inherited listening socket: %s",
				       strerror(errno));
		return 0;
	}
	if (b->params.store[0]) {
		err = tt_addr_resolve(b->params.store, addrs, &n);
		if (!err)
			b->local = addrs[0];
	} else {
		err = tt_boot_own_addr(&b->params, &b->local);
	}
	if (!err)
		err = tt_boot_check_secret(&b->params, (struct sockaddr *)&b->local.sa);
	if (!err)
		err = tt_addr_listen(&b->local, &b->listenfd);
	if (err || !b->params.boot_dir[0])
		return err == -EAGAIN ? -TUTTI_EBOOT : err;
	tt_addr_text((struct sockaddr *)&b->local.sa, text, sizeof(text));
	snprintf(b->params.store, sizeof(b->params.store), "%s", text);
	(void)tt_bootdir_other(&b->params, b->before, sizeof(b->before));
	return tt_bootdir_write(&b->params);
}

static int open_listener(struct tt_boot *b)
{
	struct tt_boot_params *p = &b->params;
	char host[64];
	int err;

	if (b->rank && p->broken)
		return 0; /* no rank will connect */
	if (!b->rank)
		err = open_store(b);
	else
		err = tt_boot_local_addr(p, host, sizeof(host));
	if (!err && b->rank)
		err = tt_addr_numeric(host, 0, &b->local);
	if (!err && !(p->boot_dir[0] && p->boot_secret))
		err = tt_boot_check_secret(p, (struct sockaddr *)&b->local.sa);
	if (!err && b->rank)
		err = tt_addr_listen(&b->local, &b->listenfd);
	return err;
}

/* This rank cannot take part (last error); it stays for a while to tell the other ranks. */
static void set_unfit(struct tt_boot *b)
{
	b->unfit.size = sizeof(b->unfit);
	tutti_last_error(&b->unfit);
	b->params.broken = &b->unfit;
	b->start_deadline = tt_deadline_ms(TT_REFUSE_MS);
}

static int open_all(struct tt_boot *b)
{
	int flags, err = open_listener(b);

	if (err && !b->rank)
		return err;
	if (err)
		set_unfit(b);
	if (b->listenfd >= 0) {
		tt_fork_guard(b->listenfd);
		flags = fcntl(b->listenfd, F_GETFL);
		fcntl(b->listenfd, F_SETFL, flags | O_NONBLOCK);
		fcntl(b->listenfd, F_SETFD, FD_CLOEXEC);
	}
	b->epfd = epoll_create1(EPOLL_CLOEXEC);
	b->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->epfd < 0 || b->wakefd < 0)
		return tt_fail(-errno, "epoll or eventfd: %s", strerror(errno));
	return tt_spawn(&b->thread, tt_ctl_main, b, "the control thread");
}

/* The number of descriptors that this process can still open. */
static long free_files(void)
{
	struct rlimit limit;
	DIR *dir = opendir("/proc/self/fd");
	long used = -3; /* ".", "..", and the descriptor of the directory */

	if (!dir)
		return LONG_MAX;
	while (readdir(dir))
		used++;
	closedir(dir);
	return getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > LONG_MAX
		       ? LONG_MAX
		       : (long)limit.rlim_cur - used;
}

void tt_check_files(struct tt_boot *b, int open)
{
	long peers = b->rank ? 2 : b->nranks - 1, left = free_files();
	long need = peers + b->nchildren + OWN_FILES - open;

	if (b->params.broken || left >= need)
		return;
	tt_fail(-EMFILE,
		"%ld file descriptors are left, the start of a job of %d ranks needs %ld here; "
		"raise 'ulimit -n'",
		left, b->nranks, need);
	set_unfit(b);
}

static void warn_of_files(const struct tt_boot *b)
{
	long left = free_files();

	if (left < b->nranks - 1)
		tt_warn("%ld file descriptors are left for connections to %d ranks: calls that "
			"need more will hang; raise 'ulimit -n'",
			left, b->nranks - 1);
}

static void remove_file(struct tt_boot *b)
{
	struct tutti_error_info keep = {.size = sizeof(keep)};
	bool have;

	if (b->rank || !b->params.boot_dir[0] || !b->params.store[0])
		return;
	have = !tutti_last_error(&keep);
	tt_bootdir_remove(&b->params); /* all ranks have joined, or none can any more */
	if (have)
		tt_fail_info(&keep);
}

/* Waits for the outcome of the start; frees b if the start has failed. */
static int await_start(struct tt_boot *b)
{
	int err;

	pthread_mutex_lock(&b->lock);
	while (!b->started && !b->failed)
		pthread_cond_wait(&b->cond, &b->lock);
	err = b->started ? 0 : b->error.code;
	pthread_mutex_unlock(&b->lock);
	remove_file(b);
	if (!err) {
		warn_of_files(b);
		return 0;
	}
	pthread_join(b->thread, NULL);
	if (b->unfit.code)
		b->error = b->unfit;
	err = tt_fail_info(&b->error);
	free_boot(b);
	return err;
}

int tt_boot_contact(const struct tt_boot_params *params, struct tt_boot **boot)
{
	struct tt_boot_params drop = *params;
	struct tt_boot *b = NULL;
	int err = 0;

	if (params->nranks < 1 || params->rank < 0 || params->rank >= params->nranks)
		err = tt_fail(-EINVAL, "rank %d of %d: ranks are from 0 to %d", params->rank,
			      params->nranks, params->nranks - 1);
	else if (sodium_init() < 0)
		err = tt_fail(-EIO, "libsodium could not be initialized");
	else if (!(b = new_boot(params)))
		err = tt_fail(-ENOMEM, "no memory to join the job; " TT_RAISE_MEMORY);
	if (err) {
		tt_boot_params_drop(&drop);
		return err;
	}
	sodium_memzero(drop.secret, sizeof(drop.secret));
	if (b->solo) {
		tt_boot_params_drop(&b->params);
		*boot = b;
		return 0;
	}
	tt_check_files(b, 0);
	err = open_all(b);
	if (err) {
		remove_file(b);
		free_boot(b);
	} else if (b->params.broken) {
		err = await_start(b);
	} else {
		*boot = b;
	}
	return err;
}

int tt_boot_join(struct tt_boot *boot, const struct tt_boot_handlers *handlers, const void *card,
		 size_t card_len)
{
	int err = 0;

	if (card_len > TT_CARD_MAX) {
		err = tt_fail(-EINVAL, "a card of %zu bytes is longer than %d", card_len,
			      TT_CARD_MAX);
		tt_boot_refuse(boot);
		return err;
	}
	pthread_mutex_lock(&boot->lock);
	if (handlers)
		boot->handlers = *handlers;
	boot->card = card_len ? card : "";
	boot->card_len = card_len;
	pthread_mutex_unlock(&boot->lock);
	if (!boot->solo) {
		tt_ctl_wake(boot);
		return await_start(boot);
	}
	if (tt_tree_entry(boot, 0, boot->host, card, card_len)) {
		free_boot(boot);
		err = tt_fail(-ENOMEM, "no memory to join the job; " TT_RAISE_MEMORY);
	}
	return err;
}

void tt_boot_refuse(struct tt_boot *boot)
{
	struct tutti_error_info why = {.size = sizeof(why)};

	if (boot->solo) {
		free_boot(boot);
		return;
	}
	if (tutti_last_error(&why) || why.code >= 0) {
		tt_fail(-TUTTI_EBOOT, "the start failed here");
		tutti_last_error(&why);
	}
	pthread_mutex_lock(&boot->lock);
	boot->unfit = why;
	boot->refused_start = true;
	pthread_mutex_unlock(&boot->lock);
	tt_ctl_wake(boot);
	await_start(boot);
}

int tt_boot_stop(struct tt_boot *boot, uint64_t deadline)
{
	int err;

	if (boot->solo) {
		free_boot(boot);
		return 0;
	}
	pthread_mutex_lock(&boot->lock);
	boot->stop = true;
	boot->stop_deadline = deadline;
	pthread_mutex_unlock(&boot->lock);
	tt_ctl_wake(boot);
	pthread_join(boot->thread, NULL);
	err = boot->stop_result;
	if (err)
		tt_fail_info(&boot->error);
	free_boot(boot);
	return err;
}
