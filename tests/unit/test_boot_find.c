/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks find each other: variables, unique ids, callback, directory, secrets, addresses. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/boot/rendezvous/address.h"
#include "lib/boot/rendezvous/auth.h"
#include "lib/boot/rendezvous/bootdir.h"
#include "lib/boot/rendezvous/secure.h"
#include "lib/boot/control/control_tree.h"
#include "tests/test.h"
#include "tests/unit/boot_help.h"

#define BOUND_MS 30000

static const char *const all_vars[] = {"TUTTI_RANK",
				       "TUTTI_NRANKS",
				       "TUTTI_LOCAL_RANK",
				       "TUTTI_STORE",
				       "TUTTI_STORE_FD",
				       "TUTTI_BOOT_DIR",
				       "TUTTI_JOB_ID",
				       "TUTTI_SECRET_FILE",
				       "TUTTI_SECRET_FD",
				       "TUTTI_INSECURE",
				       "TUTTI_IF",
				       "TUTTI_INIT_TIMEOUT",
				       "RANK",
				       "WORLD_SIZE",
				       "LOCAL_RANK",
				       "MASTER_ADDR",
				       "MASTER_PORT",
				       "TORCHELASTIC_USE_AGENT_STORE",
				       "OMPI_COMM_WORLD_RANK",
				       "OMPI_COMM_WORLD_SIZE",
				       "OMPI_COMM_WORLD_LOCAL_RANK",
				       "PMIX_NAMESPACE",
				       "PMI_RANK",
				       "PMI_SIZE",
				       "MPI_LOCALRANKID",
				       "PMI_JOBID",
				       "SLURM_PROCID",
				       "SLURM_STEP_NUM_TASKS",
				       "SLURM_LOCALID",
				       "SLURM_JOB_ID",
				       "SLURM_STEP_ID",
				       "SLURM_STEP_NUM_NODES",
				       "SLURM_CLUSTER_NAME",
				       "SLURM_RESTART_COUNT",
				       "OMPI_COMM_WORLD_LOCAL_SIZE",
				       "OMPI_MCA_orte_hnp_uri",
				       "MPI_LOCALNRANKS",
				       "LOCAL_WORLD_SIZE",
				       "TORCHELASTIC_RUN_ID",
				       "TORCHELASTIC_RESTART_COUNT",
				       "MV2_COMM_WORLD_RANK",
				       "MV2_COMM_WORLD_SIZE",
				       "FLUX_TASK_RANK",
				       "FLUX_JOB_SIZE",
				       "FLUX_JOB_ID",
				       "PMIX_RANK"};

/* Discover with exactly these variables: "A=1 B=2". */
static int discover(const char *vars, const struct tutti_config *config, struct tt_boot_params *p)
{
	char copy[600], *save, *item, *eq;
	struct tt_env env;
	size_t i;
	int err;

	for (i = 0; i < sizeof(all_vars) / sizeof(all_vars[0]); i++)
		unsetenv(all_vars[i]);
	snprintf(copy, sizeof(copy), "%s", vars);
	for (item = strtok_r(copy, " ", &save); item; item = strtok_r(NULL, " ", &save)) {
		eq = strchr(item, '=');
		*eq = 0;
		setenv(item, eq + 1, 1);
	}
	memset(p, 0, sizeof(*p));
	p->listen_fd = -1;
	err = tt_env_load(&env);
	if (err)
		return err;
	err = tt_boot_discover(config, &env, p);
	tt_env_free(&env);
	return err;
}

static void test_single_process(void)
{
	struct tt_boot_params p;
	struct tt_boot *boot = NULL;
	char addr[64];

	TT_REQUIRE(!discover("", NULL, &p));
	TT_CHECK(p.rank == 0 && p.nranks == 1 && !strcmp(p.origin, "single process"));
	TT_CHECK(!tt_boot_local_addr(&p, addr, sizeof(addr)) && !strcmp(addr, "127.0.0.1"));
	TT_REQUIRE(!bt_boot(&p, NULL, "x", 1, &boot));
	TT_CHECK(!tt_boot_stop(boot, 0));
}

static void test_tutti_run(void)
{
	struct tt_boot_params p;

	TT_REQUIRE(!discover("TUTTI_RANK=2 TUTTI_NRANKS=4 TUTTI_LOCAL_RANK=1 TUTTI_STORE=[::1]:77 "
			     "TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f RANK=7 WORLD_SIZE=9",
			     NULL, &p));
	TT_CHECK(p.rank == 2 && p.nranks == 4 && p.local_rank == 1 && p.job[15] == 15);
	TT_CHECK(!strcmp(p.store, "[::1]:77") && !strcmp(p.origin, "TUTTI_RANK") && !p.have_secret);
}

static void test_torchrun(void)
{
	struct tt_boot_params p;

	TT_REQUIRE(!discover(
		"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=localhost MASTER_PORT=29500", NULL,
		&p));
	TT_CHECK(p.rank == 1 && p.nranks == 2 && p.local_rank == 1);
	TT_CHECK(!strcmp(p.store, "localhost:29500") && !strcmp(p.origin, "torchrun"));
	TT_REQUIRE(!discover("RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=29500 "
			     "TORCHELASTIC_USE_AGENT_STORE=True",
			     NULL, &p));
	TT_CHECK(!strcmp(p.store, "[::1]:29501"));
	TT_CHECK(memcmp(p.job, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16)); /* rank 0 makes it */
}

/* The name of the job that a launcher's variables give. */
static const char *job_name(const char *vars)
{
	static struct tt_boot_params p;
	char full[600];

	snprintf(full, sizeof(full), "%s TUTTI_BOOT_DIR=/tmp", vars);
	TT_CHECK(!discover(full, NULL, &p) && !strcmp(p.boot_dir, "/tmp"));
	return p.boot_name;
}

static void test_launchers(void)
{
	struct tt_boot_params p;

	TT_REQUIRE(
		!discover("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_JOB_ID=12 "
			  "SLURM_STEP_ID=0 TUTTI_BOOT_DIR=/tmp",
			  NULL, &p));
	TT_CHECK(p.rank == 3 && p.nranks == 8 && p.local_rank == 1);
	TT_REQUIRE(!discover("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_RANK=1 "
			     "OMPI_COMM_WORLD_SIZE=2 "
			     "PMIX_NAMESPACE=../x TUTTI_STORE=a:5",
			     NULL, &p));
	TT_CHECK(p.rank == 1 && p.nranks == 2 && p.local_rank == -1);
	TT_CHECK(!strcmp(p.origin, "OMPI_COMM_WORLD_RANK"));
	TT_REQUIRE(!discover(
		"RANK=1 WORLD_SIZE=4 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 TUTTI_BOOT_DIR=/tmp",
		NULL, &p));
	TT_CHECK(p.rank == 1 && p.nranks == 4); /* torchrun in a step of Slurm */
	TT_REQUIRE(!discover("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3 MASTER_ADDR=a MASTER_PORT=5",
			     NULL, &p));
	TT_CHECK(p.rank == 2 && p.nranks == 3 && !strcmp(p.store, "a:5"));
	TT_REQUIRE(!discover("SLURM_PROCID=0 SLURM_NTASKS=8 TUTTI_BOOT_DIR=/tmp", NULL,
			     &p)); /* a batch script */
	TT_CHECK(p.rank == 0 && p.nranks == 1);
	TT_REQUIRE(!discover("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 TUTTI_RANK=0 TUTTI_NRANKS=1",
			     NULL, &p));
	TT_CHECK(p.rank == 0 && p.nranks == 1);
	TT_REQUIRE(!discover("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_JOB_ID=f3 TUTTI_BOOT_DIR=/tmp",
			     NULL, &p));
	TT_CHECK(p.rank == 1 && p.nranks == 2);
}

/* Jobs of one launcher or of two never have one name, whatever the ids. */
static void test_job_names(void)
{
	char first[100];

	TT_CHECK(!strcmp(
		job_name("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=12 SLURM_STEP_ID=0"),
		"slurm-12.0"));
	TT_CHECK(!strcmp(job_name("PMI_RANK=0 PMI_SIZE=8 PMI_JOBID=12.0"), "pmi-12.0"));
	TT_CHECK(!strcmp(job_name("PMI_RANK=0 PMI_SIZE=8 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 "
				  "SLURM_JOB_ID=12 SLURM_STEP_ID=0"),
			 "slurm-12.0"));
	TT_CHECK(!strcmp(job_name("PMI_RANK=1 PMI_SIZE=2 PMI_JOBID=7 "
				  "TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f"),
			 "pmi-7-000102030405060708090a0b0c0d0e0f"));
	TT_CHECK(!strcmp(job_name("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 "
				  "TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f"),
			 "mv2-000102030405060708090a0b0c0d0e0f"));
	TT_CHECK(!strcmp(job_name("TUTTI_RANK=1 TUTTI_NRANKS=2 "
				  "TUTTI_JOB_ID=000102030405060708090a0b0c0d0e0f"),
			 "000102030405060708090a0b0c0d0e0f"));
	TT_CHECK(!strcmp(job_name("RANK=1 WORLD_SIZE=2"), "torch"));
	TT_CHECK(!strcmp(
		job_name(
			"RANK=1 WORLD_SIZE=2 MASTER_PORT=5 MASTER_ADDR=a TORCHELASTIC_RUN_ID=none"),
		"torch-5.a.none"));
	snprintf(first, sizeof(first), "%s",
		 job_name("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=../x"));
	TT_CHECK(strlen(first) == 5 + 24 && !strncmp(first, "ompi-", 5) && !strchr(first, '/'));
	TT_CHECK(strcmp(first, job_name("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "
					"PMIX_NAMESPACE=../y")) != 0);
	TT_CHECK(
		strcmp(first,
		       job_name("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=../x "
				"OMPI_MCA_orte_hnp_uri=1.0;tcp://a:1")) != 0);
}

/* A job on one host stays on loopback, unless TUTTI_IF says otherwise. */
static void test_one_host(void)
{
	static const char *const here[] = {
		"PMI_RANK=0 PMI_SIZE=2 PMI_JOBID=1 MPI_LOCALNRANKS=2",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=1 "
		"OMPI_COMM_WORLD_LOCAL_SIZE=2",
		"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_STEP_NUM_NODES=1",
		"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2"};
	struct tt_boot_params p;
	char vars[300], addr[64];
	size_t i;

	for (i = 0; i < sizeof(here) / sizeof(here[0]); i++) {
		snprintf(vars, sizeof(vars), "%s TUTTI_BOOT_DIR=/tmp", here[i]);
		TT_REQUIRE(!discover(vars, NULL, &p));
		TT_CHECK(p.one_host && !tt_boot_local_addr(&p, addr, sizeof(addr)) &&
			 !strcmp(addr, "127.0.0.1"));
	}
	TT_REQUIRE(
		!discover("PMI_RANK=0 PMI_SIZE=3 PMI_JOBID=1 MPI_LOCALNRANKS=2 TUTTI_BOOT_DIR=/tmp",
			  NULL, &p));
	TT_CHECK(!p.one_host);
	TT_REQUIRE(!discover(
		"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 TUTTI_BOOT_DIR=/tmp", NULL,
		&p));
	TT_CHECK(!p.one_host);
}

static void bad(const char *vars, const char *name)
{
	struct tt_boot_params p;

	TT_CHECK(discover(vars, NULL, &p) == -EINVAL);
	TT_CHECK(bt_error_has(name));
}

static void test_malformed_variables(void)
{
	bad("TUTTI_RANK=1", "TUTTI_NRANKS");
	bad("TUTTI_NRANKS=2", "TUTTI_RANK");
	bad("TUTTI_RANK=x TUTTI_NRANKS=2", "TUTTI_RANK=x");
	bad("TUTTI_RANK=2 TUTTI_NRANKS=2 TUTTI_STORE=a:1", "TUTTI_RANK=2");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2", "TUTTI_STORE");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=nonsense", "TUTTI_STORE=nonsense");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=a:99999", "TUTTI_STORE=a:99999");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=::1:80", "TUTTI_STORE=::1:80");
	bad("TUTTI_RANK=1 TUTTI_NRANKS=2 TUTTI_STORE=a:0", "TUTTI_STORE=a:0");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=a:1 TUTTI_STORE_FD=0", "TUTTI_STORE_FD=0");
	bad("TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=a:1 TUTTI_JOB_ID=abc", "TUTTI_JOB_ID=abc");
	bad("SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=8 TUTTI_BOOT_DIR=/tmp", "SLURM_PROCID=8");
	bad("PMI_RANK=0 PMI_SIZE=x TUTTI_BOOT_DIR=/tmp", "PMI_SIZE=x");
	bad("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", "TUTTI_BOOT_DIR");
	bad("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", "SLURM_PROCID");
	bad("PMI_RANK=0 PMI_SIZE=2", "TUTTI_BOOT_DIR");
	bad("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "TUTTI_BOOT_DIR");
	bad("PMIX_RANK=0", "TUTTI_NRANKS");
	bad("PMI_RANK=0 PMI_SIZE=2 TUTTI_BOOT_DIR=/tmp", "TUTTI_JOB_ID");
	bad("RANK=0", "WORLD_SIZE");
	bad("WORLD_SIZE=2", "RANK");
	bad("RANK=-1 WORLD_SIZE=2", "RANK=-1");
	bad("RANK=2 WORLD_SIZE=2", "RANK=2");
	bad("RANK=1 WORLD_SIZE=2z", "WORLD_SIZE=2z");
	bad("RANK=1 WORLD_SIZE=2 LOCAL_RANK=q", "LOCAL_RANK=q");
	bad("RANK=1 WORLD_SIZE=2", "MASTER_ADDR");
	bad("RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost", "MASTER_PORT");
	bad("RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=0", "MASTER_PORT=0");
	bad("RANK=1 WORLD_SIZE=2 MASTER_ADDR=http://x MASTER_PORT=1", "MASTER_ADDR=http://x");
}

static void test_config_ranks(void)
{
	struct tutti_config c = {.size = sizeof(c), .nranks = 2, .rank = 2};
	struct tutti_unique_id id = {{1, 2, 3}};
	struct tt_boot_params p;

	TT_CHECK(discover("", &c, &p) == -EINVAL && bt_error_has("config.rank = 2"));
	c.rank = 1;
	TT_CHECK(discover("", &c, &p) == -EINVAL && bt_error_has("config.id"));
	c.id = &id;
	TT_CHECK(discover("", &c, &p) == -EINVAL && bt_error_has("unique id"));
}

static int make_file(const char *text, mode_t mode, char *path)
{
	int fd;

	strcpy(path, "/tmp/tutti-test-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode))
		return -1;
	return fd;
}

static void test_secret_sources(void)
{
	static const char base[] = "TUTTI_RANK=1 TUTTI_NRANKS=2 TUTTI_STORE=127.0.0.1:1";
	struct tt_boot_params a, b;
	char path[64], vars[300];
	int fd, fds[2];

	fd = make_file("0123456789abcdef", 0600, path);
	snprintf(vars, sizeof(vars), "%s TUTTI_SECRET_FILE=%s", base, path);
	TT_CHECK(!discover(vars, NULL, &a) && a.have_secret);
	lseek(fd, 0, SEEK_END); /* another rank has read it through the same description */
	snprintf(vars, sizeof(vars), "%s TUTTI_SECRET_FD=%d", base, fd);
	TT_CHECK(!discover(vars, NULL, &b) && b.have_secret);
	TT_CHECK(!memcmp(a.secret, b.secret, 32));
	TT_CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	TT_REQUIRE(!pipe(fds));
	TT_CHECK(write(fds[1], "0123456789abcdef", 16) == 16);
	close(fds[1]);
	snprintf(vars, sizeof(vars), "%s TUTTI_SECRET_FD=%d", base, fds[0]);
	TT_CHECK(!discover(vars, NULL, &b) && !memcmp(a.secret, b.secret, 32));
	TT_CHECK(discover(vars, NULL, &b) == -EINVAL && bt_error_has("holds 0 bytes"));
	close(fds[0]);
	TT_CHECK(!fchmod(fd, 0640));
	snprintf(vars, sizeof(vars), "%s TUTTI_SECRET_FILE=%s", base, path);
	TT_CHECK(discover(vars, NULL, &b) == -TUTTI_EAUTH && bt_error_has("chmod 600"));
	TT_CHECK(!fchmod(fd, 0600) && !ftruncate(fd, 15));
	TT_CHECK(discover(vars, NULL, &b) == -EINVAL && bt_error_has("holds 15 bytes"));
	close(fd);
	unlink(path);
	TT_CHECK(discover(vars, NULL, &b) == -EINVAL && bt_error_has("TUTTI_SECRET_FILE"));
	snprintf(vars, sizeof(vars), "%s TUTTI_SECRET_FD=99999", base);
	TT_CHECK(discover(vars, NULL, &b) == -EINVAL && bt_error_has("TUTTI_SECRET_FD=99999"));
}

static void test_no_secret_beyond_loopback(void)
{
	struct tt_boot_params p = bt_params(1, 2, 1);
	struct tt_addr loop, loop6, out;

	TT_REQUIRE(!tt_addr_numeric("127.0.1.1", 1, &loop) && !tt_addr_numeric("::1", 1, &loop6) &&
		   !tt_addr_numeric("192.0.2.77", 1, &out));
	TT_CHECK(!tt_boot_check_secret(&p, (struct sockaddr *)&out.sa));
	p.have_secret = false;
	TT_CHECK(!tt_boot_check_secret(&p, (struct sockaddr *)&loop.sa));
	TT_CHECK(!tt_boot_check_secret(&p, (struct sockaddr *)&loop6.sa));
	TT_CHECK(tt_boot_check_secret(&p, (struct sockaddr *)&out.sa) == -TUTTI_EAUTH);
	TT_CHECK(bt_error_has("TUTTI_SECRET_FILE") && bt_error_has("TUTTI_INSECURE=1"));
	p.insecure = true;
	TT_CHECK(!tt_boot_check_secret(&p, (struct sockaddr *)&out.sa));
}

static void test_addresses(void)
{
	struct tt_boot_params p = bt_params(1, 2, 1);
	char addr[64];

	TT_CHECK(!tt_boot_local_addr(&p, addr, sizeof(addr)) && !strcmp(addr, "127.0.0.1"));
	snprintf(p.iface, sizeof(p.iface), "lo");
	snprintf(p.store, sizeof(p.store), "192.0.2.9:1");
	TT_CHECK(!tt_boot_local_addr(&p, addr, sizeof(addr)) && !strcmp(addr, "127.0.0.1"));
	snprintf(p.iface, sizeof(p.iface), "127.0.0.1");
	TT_CHECK(!tt_boot_local_addr(&p, addr, sizeof(addr)) && !strcmp(addr, "127.0.0.1"));
	snprintf(p.iface, sizeof(p.iface), "nosuch0");
	TT_CHECK(tt_boot_local_addr(&p, addr, sizeof(addr)) == -EINVAL);
	TT_CHECK(bt_error_has("TUTTI_IF=nosuch0") && bt_error_has("lo"));
	snprintf(p.iface, sizeof(p.iface), "203.0.113.5"); /* without an owner */
	TT_CHECK(tt_boot_local_addr(&p, addr, sizeof(addr)) == -EINVAL);
	p.iface[0] = 0;
	snprintf(p.store, sizeof(p.store), "no-such-host.invalid:1");
	p.init_timeout = 100;
	TT_CHECK(tt_boot_local_addr(&p, addr, sizeof(addr)) == -TUTTI_EBOOT);
	TT_CHECK(bt_error_has("no-such-host.invalid"));
}

static void test_tree_shape(void)
{
	int n, r, c, to, hop, steps, found;

	for (n = 1; n < 100; n += 7)
		for (r = 0; r < n; r++) {
			for (c = 0, found = 0; c < n; c++)
				found += c && tt_tree_parent(c) == r;
			TT_CHECK(found == tt_tree_children(r, n));
			for (to = 0; to < n; to++) {
				for (hop = r, steps = 0; hop != to && steps < 10; steps++)
					hop = tt_tree_hop(hop, to);
				TT_CHECK(hop == to);
			}
		}
}

/* A whole handshake in memory, then everything an attacker may try with its bytes. */
static void test_authentication(void)
{
	struct tt_self c = {.rank = 3, .nranks = 8, .version = "1", .secret = {7}}, s = c;
	struct tt_auth ac, as, again;
	unsigned char hc[TT_HELLO_SIZE], hs[TT_HELLO_SIZE], pc[TT_PROOF_SIZE], ps[TT_PROOF_SIZE];
	unsigned char sealed[32 + TT_SEAL_OVERHEAD], plain[32] = "all together";
	struct tt_hello hello;

	s.rank = 0;
	s.job[0] = 9;
	tt_auth_hello(&ac, &c, 1, 'C', hc);
	TT_CHECK(!tt_auth_read_hello(&as, hc, 'C', &hello) && hello.rank == 3 && hello.nranks == 8);
	tt_auth_hello(&as, &s, 1, 'S', hs);
	TT_CHECK(tt_auth_read_hello(&ac, hs, 'C', &hello) == -EPROTO); /* a role can't be swapped */
	TT_CHECK(!tt_auth_read_hello(&ac, hs, 'S', &hello) && hello.job[0] == 9);
	tt_auth_prove(&ac, &c, 'C', pc);
	TT_CHECK(!tt_auth_check(&as, &s, 'C', pc));
	TT_CHECK(tt_auth_check(&ac, &c, 'S', pc) == -TUTTI_EAUTH); /* reflection */
	tt_auth_prove(&as, &s, 'S', ps);
	TT_CHECK(!tt_auth_check(&ac, &c, 'S', ps));
	/* Replay: the same hello and proof to a server that makes a fresh hello. */
	TT_CHECK(!tt_auth_read_hello(&again, hc, 'C', &hello));
	tt_auth_hello(&again, &s, 1, 'S', hs);
	TT_CHECK(tt_auth_check(&again, &s, 'C', pc) == -TUTTI_EAUTH);
	/* Frames: both ways, not changed, not repeated. */
	tt_auth_seal(&ac, plain, 32, sealed);
	memset(plain, 0, sizeof(plain));
	sealed[20] ^= 1;
	TT_CHECK(tt_auth_open(&as, sealed, sizeof(sealed), plain) == -EBADMSG);
	sealed[20] ^= 1;
	TT_CHECK(!tt_auth_open(&as, sealed, sizeof(sealed), plain) &&
		 !strcmp((char *)plain, "all together"));
	TT_CHECK(tt_auth_open(&as, sealed, sizeof(sealed), plain) == -EBADMSG);
	tt_auth_seal(&as, plain, 32, sealed);
	TT_CHECK(!tt_auth_open(&ac, sealed, sizeof(sealed), plain));
	/* Another secret. */
	s.secret[31] = 1;
	TT_CHECK(tt_auth_check(&as, &s, 'C', pc) == -TUTTI_EAUTH);
}

/* Start, look at the last rank's card, stop. */
static int meet(struct tt_boot_params *p)
{
	struct tt_boot *boot = NULL;
	const void *card;
	size_t len;
	char text[24];

	snprintf(text, sizeof(text), "card %d", p->rank);
	if (bt_boot(p, NULL, text, sizeof(text), &boot)) {
		bt_error_has("(no error)");
		return 1;
	}
	snprintf(text, sizeof(text), "card %d", p->nranks - 1);
	card = tt_boot_card(boot, p->nranks - 1, &len);
	TT_EXPECT(len == sizeof(text) && !strcmp(card, text));
	TT_EXPECT(!tt_boot_stop(boot, tt_deadline_ms(BT_HANG_MS)));
	return 0;
}

struct shared {
	struct tutti_unique_id id;
	atomic_int have, gathered, left;
	char dir[64];
	int pids[2];
	unsigned char all[8][192];
};

static int rank_unique_id(int rank, int n, void *arg)
{
	struct tutti_config c = {.size = sizeof(c), .nranks = n, .rank = rank};
	struct tt_boot_params p;
	struct shared *s = arg;

	setenv("TUTTI_IF", "lo", 1);
	if (!rank) {
		TT_EXPECT(!tutti_unique_id_get(&s->id));
		s->have = 1;
	}
	BT_WAIT(s->have);
	c.id = &s->id;
	TT_EXPECT(!discover("TUTTI_IF=lo", &c, &p));
	TT_EXPECT(!strcmp(p.origin, "unique id") && p.have_secret);
	TT_EXPECT(!meet(&p));
	if (!rank) {
		TT_EXPECT(discover("", &c, &p) == -EINVAL && bt_error_has("serves one tutti_init"));
		return 0;
	}
	return 0;
}

static void test_unique_id(void)
{
	struct shared *s = bt_shared(sizeof(*s));

	TT_CHECK(!tt_run_ranks(4, rank_unique_id, s, BOUND_MS, 0));
	munmap(s, sizeof(*s));
}

struct gather {
	struct shared *s;
	int rank, n;
};

static int gather(const void *send, void *recv, size_t len, void *arg)
{
	struct gather *g = arg;

	memcpy(g->s->all[g->rank], send, len);
	g->s->gathered++;
	BT_WAIT(g->s->gathered == g->n);
	memcpy(recv, g->s->all, (size_t)g->n * len);
	return g->s->gathered != g->n;
}

static int rank_allgather(int rank, int n, void *arg)
{
	struct gather g = {.s = arg, .rank = rank, .n = n};
	struct tutti_config c = {.size = sizeof(c),
				 .nranks = n,
				 .rank = rank,
				 .allgather = gather,
				 .allgather_arg = &g};
	struct tt_boot_params p;

	TT_EXPECT(!discover("TUTTI_IF=lo", &c, &p));
	return meet(&p);
}

static void test_allgather(void)
{
	struct shared *s = bt_shared(sizeof(*s));

	TT_CHECK(!tt_run_ranks(4, rank_allgather, s, BOUND_MS, 0));
	munmap(s, sizeof(*s));
}

static int rank_dir(int rank, int n, void *arg)
{
	struct shared *s = arg;
	struct tt_boot_params p;
	char vars[300];

	snprintf(vars, sizeof(vars), "TUTTI_IF=lo TUTTI_RANK=%d TUTTI_NRANKS=%d TUTTI_BOOT_DIR=%s",
		 rank, n, s->dir);
	TT_EXPECT(!discover(vars, NULL, &p));
	if (!rank)
		usleep(300000); /* the others meet the leftover first */
	return meet(&p);
}

/* Files left by a rank 0 killed before all have joined, or while writing. */
static void stale_file(const char *dir, int port)
{
	static const char *const names[] = {"tutti-boot", "tutti-boot.new"};
	char path[100];
	FILE *f;
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		f = fopen(path, "w");
		fprintf(f, "tutti-boot 1\nstore 127.0.0.1:%d\njob %032d\nsecret %064d\n", port, 1,
			2);
		fclose(f);
		chmod(path, 0600);
	}
}

static void test_directory(void)
{
	struct shared *s = bt_shared(sizeof(*s));
	struct tt_addr addr;
	int fd = -1;

	strcpy(s->dir, "/tmp/tutti-test-XXXXXX");
	TT_REQUIRE(mkdtemp(s->dir) != NULL);
	TT_CHECK(!tt_run_ranks(3, rank_dir, s, BOUND_MS, 0));
	stale_file(s->dir, tt_free_port()); /* no process there */
	TT_CHECK(!tt_run_ranks(3, rank_dir, s, BOUND_MS, 0));
	TT_REQUIRE(!tt_addr_numeric("127.0.0.1", 0, &addr) && !tt_addr_listen(&addr, &fd));
	stale_file(s->dir, tt_addr_port((struct sockaddr *)&addr.sa)); /* a silent stranger */
	TT_CHECK(!tt_run_ranks(3, rank_dir, s, BOUND_MS, 0));
	close(fd);
	TT_CHECK(!rmdir(s->dir)); /* nothing is left in it */
	munmap(s, sizeof(*s));
}

static void test_directory_without_rank0(void)
{
	struct tt_boot_params p;
	struct tt_boot *boot = NULL;
	char dir[64] = "/tmp/tutti-test-XXXXXX", vars[200];

	TT_REQUIRE(mkdtemp(dir) != NULL);
	snprintf(vars, sizeof(vars),
		 "TUTTI_IF=lo TUTTI_RANK=1 TUTTI_NRANKS=2 TUTTI_INIT_TIMEOUT=300 "
		 "TUTTI_BOOT_DIR=%s",
		 dir);
	TT_REQUIRE(!discover(vars, NULL, &p));
	TT_CHECK(bt_boot(&p, NULL, NULL, 0, &boot) == -TUTTI_EBOOT && bt_error_has(dir));
	rmdir(dir);
}

static int rank_store_fd(int rank, int n, void *arg)
{
	int *port_fd = arg;
	struct tt_boot_params p;
	char vars[300];

	snprintf(vars, sizeof(vars),
		 "TUTTI_RANK=%d TUTTI_NRANKS=%d TUTTI_STORE=127.0.0.1:%d "
		 "TUTTI_STORE_FD=%d",
		 rank, n, port_fd[0], port_fd[1]);
	TT_EXPECT(!discover(vars, NULL, &p));
	TT_EXPECT((p.listen_fd >= 0) == (rank == 0));
	return meet(&p);
}

/* As tutti_run does it, without a secret: loopback is allowed. */
static void test_inherited_socket(void)
{
	struct tt_addr addr;
	int port_fd[2];

	TT_REQUIRE(!tt_addr_numeric("127.0.0.1", 0, &addr) && !tt_addr_listen(&addr, &port_fd[1]));
	port_fd[0] = tt_addr_port((struct sockaddr *)&addr.sa);
	TT_CHECK(!tt_run_ranks(3, rank_store_fd, port_fd, BOUND_MS, 0));
	close(port_fd[1]);
}

static int rank_torch(int rank, int n, void *arg)
{
	struct tt_boot_params p;
	char vars[300];

	snprintf(vars, sizeof(vars), "RANK=%d WORLD_SIZE=%d MASTER_ADDR=localhost MASTER_PORT=%d",
		 rank, n, *(int *)arg);
	TT_EXPECT(!discover(vars, NULL, &p));
	return meet(&p);
}

static void test_torchrun_meets(void)
{
	int port = tt_free_port();

	TT_CHECK(!tt_run_ranks(3, rank_torch, &port, BOUND_MS, 0));
}

static void *write_often(void *arg)
{
	int i;

	for (i = 0; i < 100; i++)
		if (tt_bootdir_write(arg))
			return arg;
	return NULL;
}

/* Two that write at the same time both succeed, and leave one whole file. */
static void test_directory_written_twice(void)
{
	char dir[] = "/tmp/tutti-test-XXXXXX", path[64];
	struct tt_boot_params p = {.store = "127.0.0.1:1"};
	pthread_t other;
	void *wrong;

	TT_REQUIRE(mkdtemp(dir));
	snprintf(p.boot_dir, sizeof(p.boot_dir), "%s", dir);
	TT_REQUIRE(!pthread_create(&other, NULL, write_often, &p));
	TT_CHECK(!write_often(&p));
	TT_CHECK(!pthread_join(other, &wrong) && !wrong);
	tt_bootdir_remove(&p);
	snprintf(path, sizeof(path), "%s/tutti-boot.new", dir);
	unlink(path);
	TT_CHECK(!rmdir(dir));
}

/* The first is replaced and says so; the second lets its timeout pass, and names the first. */
static int rank_zero(int rank, int n, void *arg)
{
	struct shared *s = arg;
	struct tt_boot_params p;
	struct tt_boot *boot = NULL;
	char vars[300], other[40], file[80];

	snprintf(
		vars, sizeof(vars),
		"TUTTI_IF=lo TUTTI_RANK=0 TUTTI_NRANKS=%d TUTTI_BOOT_DIR=%s TUTTI_INIT_TIMEOUT=%ds",
		n, s->dir, rank ? 3 : 20);
	TT_EXPECT(!discover(vars, NULL, &p));
	s->pids[rank] = getpid();
	snprintf(file, sizeof(file), "%s/tutti-boot", s->dir);
	if (rank)
		BT_WAIT(!access(file, F_OK));
	TT_EXPECT(bt_boot(&p, NULL, NULL, 0, &boot) == -TUTTI_EBOOT);
	snprintf(other, sizeof(other), "process %d on", s->pids[!rank]);
	TT_EXPECT(bt_error_has(other) && bt_error_has(s->dir));
	TT_EXPECT(bt_error_has("give each rank its own TUTTI_RANK"));
	return bt_error_has(rank ? "rank 1 of 2 did not join" : "both start there as rank 0") ? 0
											      : 1;
}

static void test_directory_of_two(void)
{
	struct shared *s = bt_shared(sizeof(*s));

	strcpy(s->dir, "/tmp/tutti-test-XXXXXX");
	TT_REQUIRE(mkdtemp(s->dir) != NULL);
	TT_CHECK(!tt_run_ranks(2, rank_zero, s, BOUND_MS, 0));
	TT_CHECK(!rmdir(s->dir));
	munmap(s, sizeof(*s));
}

static const struct tt_test tests[] = {
	{"single_process", test_single_process},
	{"tutti_run", test_tutti_run},
	{"torchrun", test_torchrun},
	{"launchers", test_launchers},
	{"job_names", test_job_names},
	{"one_host", test_one_host},
	{"malformed_variables", test_malformed_variables},
	{"config_ranks", test_config_ranks},
	{"secret_sources", test_secret_sources},
	{"no_secret_beyond_loopback", test_no_secret_beyond_loopback},
	{"addresses", test_addresses},
	{"tree_shape", test_tree_shape},
	{"authentication", test_authentication},
	{"unique_id", test_unique_id},
	{"allgather", test_allgather},
	{"directory", test_directory},
	{"directory_without_rank0", test_directory_without_rank0},
	{"directory_written_twice", test_directory_written_twice},
	{"directory_of_two", test_directory_of_two},
	{"inherited_socket", test_inherited_socket},
	{"torchrun_meets", test_torchrun_meets},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("boot_find", tests, argc, argv);
}
