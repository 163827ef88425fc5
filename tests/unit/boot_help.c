/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of lib/boot; see boot_help.h. */
#include "tests/unit/boot_help.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/boot/control/control.h"
#include "tests/test.h"

void *bt_shared(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

struct tt_boot_params bt_params(int rank, int n, int port)
{
	struct tt_boot_params p = {
		.rank = rank,
		.nranks = n,
		.local_rank = rank,
		.listen_fd = -1,
		.have_secret = true,
		.init_timeout = 120000,
		.heartbeat = 200,
		.heartbeat_limit = 10000,
		.origin = "test",
	};

	snprintf(p.store, sizeof(p.store), "127.0.0.1:%d", port);
	memset(p.secret, 0x5a, sizeof(p.secret));
	if (!rank)
		memset(p.job, 0x77, sizeof(p.job));
	return p;
}

/* A message: u32 sequence among its kind, then whether it was sent to all. */
static void on_msg(void *arg, int from, const void *data, size_t len)
{
	struct bt_seen *seen = arg;
	uint32_t word[2];

	pthread_mutex_lock(&seen->lock);
	if (len < sizeof(word)) {
		seen->disorder = true;
	} else {
		memcpy(word, data, sizeof(word));
		int *n = word[1] ? &seen->nall[from] : &seen->nmsg[from];

		seen->disorder |= (int)word[0] != *n;
		++*n;
	}
	pthread_mutex_unlock(&seen->lock);
}

static void on_gone(void *arg, int rank, const char *host, const char *why)
{
	struct bt_seen *seen = arg;

	pthread_mutex_lock(&seen->lock);
	seen->twice += seen->gone[rank] || !host || !host[0];
	seen->gone[rank] = true;
	seen->ngone++;
	snprintf(seen->why[rank], sizeof(seen->why[rank]), "%s", why);
	pthread_mutex_unlock(&seen->lock);
}

void bt_seen_init(struct bt_seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	pthread_mutex_init(&seen->lock, NULL);
}

struct tt_boot_handlers bt_handlers(struct bt_seen *seen)
{
	struct tt_boot_handlers h = {.gone = on_gone, .arg = seen};

	h.fn[TT_CTL_QUERY] = on_msg;
	return h;
}

int bt_gone_count(struct bt_seen *seen)
{
	int n;

	pthread_mutex_lock(&seen->lock);
	n = seen->twice ? -1 : seen->ngone;
	pthread_mutex_unlock(&seen->lock);
	return n;
}

bool bt_gone(struct bt_seen *seen, int rank, char *why, size_t size)
{
	bool gone;

	pthread_mutex_lock(&seen->lock);
	gone = seen->gone[rank];
	if (why)
		snprintf(why, size, "%s", seen->why[rank]);
	pthread_mutex_unlock(&seen->lock);
	return gone;
}

int bt_received(struct bt_seen *seen)
{
	int i, n = 0;

	pthread_mutex_lock(&seen->lock);
	for (i = 0; i < BT_RANKS; i++)
		n += seen->nmsg[i] + seen->nall[i];
	if (seen->disorder)
		n = -1;
	pthread_mutex_unlock(&seen->lock);
	return n;
}

struct bt_job *bt_job_new(void)
{
	struct bt_job *j = bt_shared(sizeof(*j));

	j->port = tt_free_port();
	j->victim = -1;
	return j;
}

void bt_job_run(int n, tt_rank_fn *fn, unsigned killed)
{
	struct bt_job *j = bt_job_new();

	TT_CHECK(!tt_run_ranks(n, fn, j, BT_BOUND_MS, killed));
	munmap(j, sizeof(*j));
}

static void fill_card(unsigned char *card, size_t len, int rank)
{
	size_t i;

	for (i = 0; i < len; i++)
		card[i] = (unsigned char)(rank * 7 + (int)i);
}

static int check_cards(struct tt_boot *boot, int n)
{
	unsigned char want[TT_CARD_MAX];
	const void *card;
	size_t len;
	int r;

	for (r = 0; r < n; r++) {
		card = tt_boot_card(boot, r, &len);
		fill_card(want, sizeof(want), r);
		TT_EXPECT(len == (r % 3 ? sizeof(want) : 0));
		TT_EXPECT(!memcmp(card, want, len));
		TT_EXPECT(tt_boot_host(boot, r)[0]);
	}
	return 0;
}

int bt_boot(const struct tt_boot_params *params, const struct tt_boot_handlers *handlers,
	    const void *card, size_t card_len, struct tt_boot **boot)
{
	int err = tt_boot_contact(params, boot);

	if (err)
		return err;
	err = tt_boot_join(*boot, handlers, card, card_len);
	if (err)
		*boot = NULL;
	return err;
}

int bt_start(struct tt_boot_params *p, struct bt_seen *seen, struct tt_boot **boot)
{
	struct tt_boot_handlers h = bt_handlers(seen);
	unsigned char card[TT_CARD_MAX];

	fill_card(card, sizeof(card), p->rank);
	return bt_boot(p, &h, card, p->rank % 3 ? sizeof(card) : 0, boot);
}

/* The text of the last error. */
static const char *why(void)
{
	static struct tutti_error_info info = {.size = sizeof(info)};

	return tutti_last_error(&info) ? "no error" : info.text;
}

static int starts(struct tt_boot_params *p, struct bt_seen *seen, struct tt_boot **boot)
{
	int err = bt_start(p, seen, boot);

	if (err)
		fprintf(stderr, "rank %d of %d does not start: %s\n", p->rank, p->nranks, why());
	return err;
}

int bt_rank_start_stop(int rank, int n, void *arg)
{
	struct bt_job *j = arg;
	struct tt_boot_params p = bt_params(rank, n, j->port);
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	/*
	 * No heartbeat wakes a control thread that sleeps with work left, such as a part of the
	 * table.
	 */
	p.heartbeat = 60000;
	p.heartbeat_limit = 240000;
	bt_seen_init(&seen);
	TT_EXPECT(!starts(&p, &seen, &boot));
	TT_EXPECT(boot->rank == rank && boot->nranks == n);
	TT_EXPECT(!check_cards(boot, n));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	TT_EXPECT(bt_gone_count(&seen) == 0);
	return 0;
}

bool bt_error_has(const char *s)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (tutti_last_error(&info))
		return false;
	if (!strstr(info.text, s))
		fprintf(stderr, "the error is '%s', without '%s'\n", info.text, s);
	return strstr(info.text, s) != NULL;
}

int bt_expect_failure(struct tt_boot_params *p, int code, const char *text)
{
	struct tt_boot *boot = NULL;
	struct bt_seen seen;

	bt_seen_init(&seen);
	TT_EXPECT(bt_start(p, &seen, &boot) == code);
	TT_EXPECT(bt_error_has(text));
	TT_EXPECT(!boot);
	return 0;
}
