/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meeting through a launcher's key-value space: PMI-1 as the ranks speak it, with a launcher of the
 * test's own that can also answer wrongly or not at all. Real launchers: mp/programs/mpi.sh,
 * cluster.sh.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/boot/rendezvous/discover.h"
#include "lib/boot/rendezvous/launcher_kvs.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

#define RANKS 5
#define PAIRS_MAX (2 * RANKS)

enum mistake {
	NONE,
	ENDS,	   /* closes */
	WORD,	   /* another answer */
	ENDLESS,   /* a line without an end */
	REFUSES,   /* rc=-1 */
	VALUELESS, /* a result without a value */
	GARBLED,   /* a value that is no base 64 */
	CHANGED,   /* a value of the right length that rank 0 did not put */
	TOO_LONG,  /* a value longer than any */
	NOT_MADE,  /* rank 0 had no address */
	SILENT
};

struct launcher {
	int n, served, waiting; /* ranks, those that the barrier waits for, those in it */
	int ours[RANKS], theirs[RANKS];
	enum mistake mistake; /* in its answer to a get */
	char key[PAIRS_MAX][80], value[PAIRS_MAX][500];
	int npairs, finalized;
};

static void answer(struct launcher *l, int rank, const char *text)
{
	if (send(l->ours[rank], text, strlen(text), MSG_NOSIGNAL) < 0)
		TT_CHECK(errno == EPIPE || errno == ECONNRESET);
}

static void answer_wrongly(struct launcher *l, int rank, const char *value)
{
	char text[4200] = "cmd=get_result rc=0 msg=ok value=";
	size_t len = strlen(text);

	switch (l->mistake) {
	case ENDS:
		shutdown(l->ours[rank], SHUT_RDWR);
		return;
	case WORD:
		answer(l, rank, "cmd=barrier_out\n");
		return;
	case ENDLESS:
		memset(text, 'x', 4000);
		text[4000] = 0;
		break;
	case REFUSES:
		snprintf(text, sizeof(text), "cmd=get_result rc=-1 msg=no_key\n");
		break;
	case VALUELESS:
		snprintf(text, sizeof(text), "cmd=get_result rc=0\n");
		break;
	case GARBLED:
		strcat(text, "***\n");
		break;
	case CHANGED:
		snprintf(text + len, sizeof(text) - len, "%c%s\n", value[0] == 'A' ? 'B' : 'A',
			 value + 1);
		break;
	case TOO_LONG:
		memset(text + len, 'A', 1000);
		strcpy(text + len + 1000, "\n");
		break;
	case NOT_MADE:
		strcat(text, "-\n");
		break;
	default:
		return;
	}
	answer(l, rank, text);
}

static void get(struct launcher *l, int rank, const char *key)
{
	char text[700];
	int i;

	for (i = 0; i < l->npairs && strcmp(l->key[i], key); i++)
		;
	/* A rank alone asks for what nobody put: its launcher answers with anything. */
	if (l->mistake != NONE) {
		char any[400];

		memset(any, 'A', 320);
		any[320] = 0;
		answer_wrongly(l, rank, any);
		return;
	}
	if (i == l->npairs)
		snprintf(text, sizeof(text), "cmd=get_result rc=-1 msg=no_key\n");
	else
		snprintf(text, sizeof(text), "cmd=get_result rc=0 msg=ok value=%s\n", l->value[i]);
	answer(l, rank, text);
}

static void barrier(struct launcher *l)
{
	int r;

	if (++l->waiting < l->served)
		return;
	l->waiting = 0;
	for (r = 0; r < l->n; r++)
		if (l->served == l->n || l->served == 1)
			answer(l, r, "cmd=barrier_out\n");
}

static void serve(struct launcher *l, int rank, const char *line)
{
	char key[80], value[500];

	if (!strcmp(line, "cmd=init pmi_version=1 pmi_subversion=1")) {
		answer(l, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
	} else if (!strcmp(line, "cmd=get_my_kvsname")) {
		answer(l, rank, "cmd=my_kvsname kvsname=space_7\n");
	} else if (sscanf(line, "cmd=put kvsname=space_7 key=%79s value=%499s", key, value) == 2) {
		TT_REQUIRE(l->npairs < PAIRS_MAX);
		strcpy(l->key[l->npairs], key);
		strcpy(l->value[l->npairs++], value);
		answer(l, rank, "cmd=put_result rc=0 msg=success\n");
	} else if (sscanf(line, "cmd=get kvsname=space_7 key=%79s", key) == 1) {
		get(l, rank, key);
	} else if (!strcmp(line, "cmd=barrier_in")) {
		barrier(l);
	} else if (!strcmp(line, "cmd=finalize")) {
		l->finalized++;
		answer(l, rank, "cmd=finalize_ack\n");
	} else {
		CU_FAIL("a line that PMI-1 does not have");
	}
}

/* Lines are short and wait for their answer, so that one read takes one line. */
static bool serve_one(struct launcher *l, int rank)
{
	char line[1024];
	ssize_t n = recv(l->ours[rank], line, sizeof(line) - 1, 0);

	if (n <= 0)
		return false;
	if (line[n - 1] != '\n') {
		CU_FAIL("a line without an end");
		return false;
	}
	line[n - 1] = 0;
	serve(l, rank, line);
	return true;
}

/* Until all ranks have ended. */
static void serve_all(struct launcher *l)
{
	struct pollfd fds[RANKS];
	int r, left = l->n;

	for (r = 0; r < l->n; r++)
		fds[r] = (struct pollfd){.fd = l->ours[r], .events = POLLIN};
	while (left && poll(fds, (nfds_t)l->n, BT_BOUND_MS) > 0)
		for (r = 0; r < l->n; r++)
			if (fds[r].revents && !serve_one(l, r)) {
				fds[r].fd = -1;
				left--;
			}
	TT_CHECK(!left);
}

static bool launcher_open(struct launcher *l, int n, int served, enum mistake mistake)
{
	int r, pair[2];

	memset(l, 0, sizeof(*l));
	l->n = n;
	l->served = served;
	l->mistake = mistake;
	for (r = 0; r < n; r++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return false;
		l->ours[r] = pair[0];
		l->theirs[r] = pair[1];
	}
	return true;
}

/* A rank's part of tt_boot_discover. */
static int meet(struct launcher *l, int rank, int n, struct tt_boot_params *p)
{
	char number[16];
	int r;

	for (r = 0; r < l->n; r++) {
		close(l->ours[r]);
		if (l->n > 1 && r != rank)
			close(l->theirs[r]);
	}
	snprintf(number, sizeof(number), "%d", l->theirs[l->n > 1 ? rank : 0]);
	setenv("PMI_FD", number, 1);
	p->rank = rank;
	p->nranks = n;
	p->kvs = &tt_kvs_pmi1;
	p->one_host = true;
	return tt_kvs_meet(p);
}

struct found {
	struct launcher l;
	struct tt_boot_params p[RANKS];
	bool secret;
};

static int rank_meets(int rank, int n, void *arg)
{
	struct found *f = arg;
	struct tt_boot_params p = {.listen_fd = -1, .init_timeout = 20000};

	if (f->secret) { /* of TUTTI_SECRET_FILE */
		p.have_secret = true;
		memset(p.secret, 77, sizeof(p.secret));
	}
	TT_EXPECT(!meet(&f->l, rank, n, &p));
	TT_EXPECT((p.listen_fd >= 0) == (rank == 0) && p.have_secret);
	f->p[rank] = p;
	TT_EXPECT(tt_kvs_meet(&p) == -TUTTI_EBOOT && bt_error_has("called again"));
	return 0;
}

static void run_launcher(struct found *f, int n, tt_rank_fn *fn)
{
	pid_t pid = fork(); /* the launcher */
	int r, status = -1;

	TT_REQUIRE(pid >= 0);
	if (!pid) {
		for (r = 0; r < f->l.n; r++)
			close(f->l.theirs[r]);
		serve_all(&f->l);
		_exit(CU_get_number_of_failures() != 0);
	}
	TT_CHECK(!tt_run_ranks(n, fn, f, BT_BOUND_MS, 0));
	for (r = 0; r < f->l.n; r++) {
		close(f->l.ours[r]);
		close(f->l.theirs[r]);
	}
	TT_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* The launcher never sees the key, or one value twice. */
static void check_sealed(const struct found *f)
{
	const char *value;
	unsigned char bytes[500];
	size_t n;
	int i, j;

	for (i = 0; i < f->l.npairs; i++) {
		value = f->l.value[i];
		TT_CHECK(!sodium_base642bin(bytes, sizeof(bytes), value, strlen(value), NULL, &n,
					    NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING));
		TT_CHECK(!memmem(bytes, n, f->p[0].secret, sizeof(f->p[0].secret)));
		TT_CHECK(!memmem(bytes, n, "TUTTIuid", 8));
		for (j = 0; j < i; j++)
			TT_CHECK(strcmp(f->l.value[i], f->l.value[j]) != 0);
	}
}

static void run_size(int n, bool secret)
{
	static const unsigned char given[32] = {[0 ... 31] = 77};
	struct found *f = bt_shared(sizeof(*f));
	int r;

	TT_REQUIRE(launcher_open(&f->l, n, n, NONE));
	f->secret = secret;
	run_launcher(f, n, rank_meets);
	for (r = 0; r < n; r++) {
		TT_CHECK(!strncmp(f->p[r].store, "127.0.0.1:", 10));
		TT_CHECK(!strcmp(f->p[r].store, f->p[0].store));
		TT_CHECK(!memcmp(f->p[r].job, f->p[0].job, 16));
		TT_CHECK(!memcmp(f->p[r].secret, f->p[0].secret, 32));
		TT_CHECK(!memcmp(f->p[r].secret, given, 32) == secret);
	}
	TT_CHECK(f->l.finalized == n && f->l.npairs == 2 * (n - 1));
	check_sealed(f);
	munmap(f, sizeof(*f));
}

static void test_sizes(void)
{
	run_size(2, false);
	run_size(3, false);
	run_size(RANKS, false);
}

static void test_own_secret(void)
{
	run_size(3, true);
}

static const struct {
	enum mistake mistake;
	int code;
	const char *text[2]; /* at rank 0, at rank 1; NULL: the launcher cannot make it there */
} mistakes[] = {
	{ENDS, -TUTTI_EBOOT, {"the launcher has closed it", "the launcher has closed it"}},
	{WORD, -TUTTI_EBOOT, {"'cmd=barrier_out', not get_result", "not get_result"}},
	{ENDLESS, -TUTTI_EBOOT, {"too long", "too long"}},
	{REFUSES, -TUTTI_EBOOT, {"get_result reports error -1", "reports error -1"}},
	{VALUELESS, -TUTTI_EBOOT, {"no value came", "no value came"}},
	{GARBLED, -TUTTI_EBOOT, {"key of rank 1 is damaged", "id of rank 0 is damaged"}},
	{CHANGED, -TUTTI_EAUTH, {NULL, "cannot be opened"}},
	{TOO_LONG, -TUTTI_EBOOT, {"no value came", "no value came"}},
	{NOT_MADE, -TUTTI_EBOOT, {NULL, "rank 0 could not start"}},
	{SILENT, -ETIMEDOUT, {"within 300ms", "rank 1 of 2"}},
};

struct wrong {
	struct found f; /* first: run_launcher's argument */
	size_t which;
	int rank;
};

static int rank_refuses(int rank, int n, void *arg)
{
	struct wrong *w = arg;
	struct tt_boot_params p = {.listen_fd = -1, .store = "unchanged"};
	int fds = tt_open_fds();

	p.init_timeout = mistakes[w->which].mistake == SILENT ? 300 : 20000;
	TT_EXPECT(meet(&w->f.l, w->rank, 2, &p) == mistakes[w->which].code);
	TT_EXPECT(bt_error_has(mistakes[w->which].text[w->rank]));
	TT_EXPECT(!strcmp(p.store, "unchanged") && p.listen_fd == -1 && !p.have_secret);
	/* meet has closed the launcher's end; a thread left behind keeps rank 0's socket */
	TT_EXPECT(mistakes[w->which].mistake == SILENT || tt_open_fds() == fds - 1);
	if (mistakes[w->which].mistake == SILENT)
		TT_EXPECT(tt_kvs_meet(&p) == -EBUSY && bt_error_has("still waits"));
	return 0;
}

static void test_mistakes(void)
{
	struct wrong *w = bt_shared(sizeof(*w));

	for (w->which = 0; w->which < sizeof(mistakes) / sizeof(mistakes[0]); w->which++)
		for (w->rank = 0; w->rank < 2; w->rank++) {
			if (!mistakes[w->which].text[w->rank])
				continue;
			TT_REQUIRE(launcher_open(&w->f.l, 1, 1, mistakes[w->which].mistake));
			run_launcher(&w->f, 1, rank_refuses);
		}
	munmap(w, sizeof(*w));
}

/* Rank 0 has no address to listen at: the other ranks learn it at once. */
static int rank_without_address(int rank, int n, void *arg)
{
	struct found *f = arg;
	struct tt_boot_params p = {.listen_fd = -1, .init_timeout = 20000, .iface = "nothere0"};

	TT_EXPECT(meet(&f->l, rank, n, &p) < 0);
	TT_EXPECT(bt_error_has(rank ? "rank 0 could not start" : "nothere0"));
	return 0;
}

static void test_no_address(void)
{
	struct found *f = bt_shared(sizeof(*f));

	TT_REQUIRE(launcher_open(&f->l, 3, 3, NONE));
	run_launcher(f, 3, rank_without_address);
	TT_CHECK(f->l.finalized == 3);
	munmap(f, sizeof(*f));
}

struct beside {
	const char *lib;
	int loaded;
};

/* As Python loads it. */
static int rank_beside_mpi(int rank, int n, void *arg)
{
	struct beside *b = arg;
	struct tt_boot_params p = {
		.nranks = 2, .rank = 1, .kvs = &tt_kvs_pmi1, .init_timeout = 20000};

	if (!dlopen(b->lib, RTLD_LAZY | RTLD_LOCAL))
		return 0;
	b->loaded++;
	TT_EXPECT(!dlsym(RTLD_DEFAULT, "PMPI_Init"));
	TT_EXPECT(tt_kvs_meet(&p) == -EINVAL && bt_error_has("belongs to the MPI library"));
	return 0;
}

static void test_beside_mpi(void)
{
	static const char *const libs[] = {"libmpi.so.40", "libmpich.so.12"};
	struct beside *b = bt_shared(sizeof(*b));
	int i, loaded;

	for (i = 0; i < 2; i++) {
		b->lib = libs[i];
		TT_CHECK(!tt_run_ranks(1, rank_beside_mpi, b, BT_BOUND_MS, 0));
	}
	loaded = b->loaded;
	munmap(b, sizeof(*b));
	if (!loaded)
		TT_SKIP("there is no MPI library");
}

/* PMI_FD is not a descriptor of a launcher. */
static int rank_descriptors(int rank, int n, void *arg)
{
	static const char *const wrong[] = {"x", "-1", "99999"};
	static const char *const text[] = {"PMI_FD=x", "PMI_FD=-1", "Bad file descriptor"};
	struct tt_boot_params p = {
		.nranks = 2, .rank = 1, .kvs = &tt_kvs_pmi1, .init_timeout = 20000};
	size_t i;

	for (i = 0; i < 3; i++) {
		setenv("PMI_FD", wrong[i], 1);
		TT_EXPECT(tt_kvs_meet(&p) < 0 && bt_error_has(text[i]));
	}
	return 0;
}

static void test_descriptors(void)
{
	TT_CHECK(!tt_run_ranks(1, rank_descriptors, NULL, BT_BOUND_MS, 0));
}

static const struct tt_test tests[] = {{"sizes", test_sizes},
				       {"own_secret", test_own_secret},
				       {"mistakes", test_mistakes},
				       {"no_address", test_no_address},
				       {"descriptors", test_descriptors},
				       {"beside_mpi", test_beside_mpi},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_kvs", tests, argc, argv);
}
