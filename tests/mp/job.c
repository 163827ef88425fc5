/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of forked ranks; see job.h. */
#include "config.h"

#include "tests/mp/job.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* There in builds with AddressSanitizer only; ranks leave by _exit, which skips its leak check. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* Read by LeakSanitizer: what libfabric forgets when a peer dies while connecting is not ours. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so\n";
}

#ifdef __SANITIZE_THREAD__
/*
 * Slots are written while workers read them one-sidedly, here by another thread of this process in
 * place of a device, or by libfabric's software provider. Readers detect this by the stamps of
 * slots.
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:libfabric.so\nrace:tt_ps_publish\n";
}
#endif

const char *mp_no_limit(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return "the sanitizers need mappings of their own";
#else
	return NULL;
#endif
}

bool mp_limit_memory(long room)
{
	FILE *f = mp_no_limit() ? NULL : fopen("/proc/self/statm", "r");
	struct rlimit l;
	long pages = 0;

	if (!f || getrlimit(RLIMIT_AS, &l))
		return false;
	if (fscanf(f, "%ld", &pages) == 1)
		l.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + room);
	fclose(f);
	return pages && !setrlimit(RLIMIT_AS, &l);
}

double mp_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void mp_sleep_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

bool mp_await(atomic_int *word, int value, int ms)
{
	double end = mp_now() + ms * 1e-3;

	while (atomic_load(word) < value) {
		if (mp_now() > end)
			return false;
		usleep(100);
	}
	return true;
}

static bool all_stopped(int pid)
{
	char path[64], line[512], *state;
	struct dirent *task;
	bool all = true;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && all && (task = readdir(d))) {
		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid, task->d_name);
		f = fopen(path, "re");
		state = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		all = state && state[1] && state[2] == 'T';
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return d && all;
}

int mp_stop(int pid)
{
	double until = mp_now() + MP_HANG_MS * 1e-3;

	TT_EXPECT(!kill(pid, SIGSTOP));
	while (!all_stopped(pid) && mp_now() < until)
		usleep(1000);
	TT_EXPECT(all_stopped(pid));
	return 0;
}

void mp_meet(struct mp_job *job)
{
	int ticket = atomic_fetch_add(&job->shared->arrived, 1);

	if (mp_await(&job->shared->arrived, (ticket / job->n + 1) * job->n, MP_HANG_MS))
		return;
	fprintf(stderr, "rank %d: the others did not come\n", job->rank);
	_exit(3);
}

static void on_log(enum tutti_log_level level, const char *line, void *arg)
{
	struct mp_job *job = arg;
	size_t used;

	pthread_mutex_lock(&job->log_lock);
	used = strlen(job->log);
	snprintf(job->log + used, sizeof(job->log) - used, "%s\n", line);
	if (getenv("TUTTI_TEST_VERBOSE"))
		fprintf(stderr, "[%d] %.3f %s\n", job->rank, mp_now(), line);
	pthread_mutex_unlock(&job->log_lock);
}

void mp_log_level(struct mp_job *job, enum tutti_log_level level)
{
	tutti_set_log(on_log, job, level);
}

bool mp_log_has(struct mp_job *job, const char *text)
{
	bool has;

	pthread_mutex_lock(&job->log_lock);
	has = strstr(job->log, text) != NULL;
	pthread_mutex_unlock(&job->log_lock);
	return has;
}

bool mp_log_await(struct mp_job *job, const char *text)
{
	double end = mp_now() + MP_HANG_MS * 1e-3;

	while (!mp_log_has(job, text) && mp_now() < end)
		mp_sleep_ms(1);
	return mp_log_has(job, text);
}

void mp_failed(struct mp_job *job, const char *what, int err, const char *file, int line)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "%s:%d: rank %d of %d: %s: %d (%s); last error %d: %s\n", file, line,
		job->rank, job->n, what, err, tutti_strerror(err), info.code, info.text);
}

bool mp_said(const char *word)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	return !tutti_last_error(&info) && strstr(info.text, word);
}

const char *mp_no_ofi(void)
{
#ifdef HAVE_OFI
	return NULL;
#else
	return "built without libfabric";
#endif
}

uint64_t mp_got_bytes(struct mp_job *job)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	return tutti_stats_get(job->ctx, &stats) ? 0 : stats.got_bytes;
}

bool mp_sanitized(void)
{
	return __lsan_do_recoverable_leak_check != NULL;
}

bool mp_brief(void)
{
	return getenv("TT_BRIEF");
}

bool mp_few_sizes(const char *env)
{
	return strstr(env, "=verbs") && !getenv("TT_MORE");
}

const char *mp_no_verbs(void)
{
#ifdef HAVE_VERBS
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir)))
		n += e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n ? NULL : "there is no RDMA device; tests/vm/verbs.sh runs this in its guest";
#else
	return "built without libibverbs";
#endif
}

int mp_shm_files(void)
{
	DIR *dir = opendir("/dev/shm");
	struct dirent *e;
	int n = 0;

	if (!dir)
		return 0;
	while ((e = readdir(dir)))
		n += strstr(e->d_name, "tutti") != NULL;
	closedir(dir);
	return n;
}

/* ---- joining ---- */

static int gather(const void *send, void *recv, size_t len, void *arg)
{
	struct mp_job *job = arg;

	if (len * (size_t)job->n > sizeof(job->shared->gather))
		return 1;
	memcpy(job->shared->gather + (size_t)job->rank * len, send, len);
	mp_meet(job);
	memcpy(recv, job->shared->gather, len * (size_t)job->n);
	mp_meet(job);
	return 0;
}

int mp_join(struct mp_job *job, enum mp_way way, struct tutti_config *config)
{
	int err;

	config->size = sizeof(*config);
	if (way != MP_ENV) {
		if (!config->nranks)
			config->nranks = job->n;
		config->rank = job->rank;
	}
	if (way == MP_GATHER) {
		config->allgather = gather;
		config->allgather_arg = job;
	}
	if (way == MP_ID) {
		if (job->rank == 0) {
			err = tutti_unique_id_get(&job->shared->id);
			if (err)
				return err;
			atomic_store(&job->shared->id_ready, 1);
		} else if (!mp_await(&job->shared->id_ready, 1, MP_HANG_MS)) {
			return -ETIMEDOUT;
		}
		config->id = &job->shared->id;
	}
	err = tutti_init(config, &job->ctx);
	if (!err)
		job->world = tutti_world(job->ctx);
	return err;
}

int mp_join_first(struct mp_job *job, int n)
{
	struct tutti_config config = {.nranks = n};

	return mp_join(job, MP_ID, &config);
}

int mp_join_later(struct mp_job *job)
{
	int err;

	setenv("TUTTI_JOIN", "1", 1);
	err = tutti_init(NULL, &job->ctx);
	if (!err)
		job->world = tutti_world(job->ctx);
	return err;
}

int mp_leave(struct mp_job *job)
{
	int err = job->ctx ? tutti_finalize(job->ctx) : 0;

	job->ctx = NULL;
	return err;
}

int mp_leave_failed(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (mp_leave(job) != -EBUSY)
		return 0;
	tutti_last_error(&info);
	fprintf(stderr, "rank %d: %s\n", job->rank, info.text);
	return 1;
}

int mp_died(struct mp_job *job, int err, int n, struct tutti_request **req)
{
	int i;

	if (err != -TUTTI_EPEER && err != -TUTTI_EABORTED && err != -TUTTI_ETRANSPORT) {
		mp_failed(job, "the killed rank is the error", err, __FILE__, __LINE__);
		return 1;
	}
	tutti_waitall(n, req);
	for (i = 0; i < n; i++)
		TT_EXPECT(!req[i]);
	return 0;
}

int mp_await_death(struct mp_job *job)
{
	struct tutti_failed dead;
	double end = mp_now() + MP_HANG_MS * 1e-3;
	int n = 0;

	while (!n && mp_now() < end) {
		MP_OK(tutti_comm_failed(job->world, &dead, 1, &n));
		mp_sleep_ms(1);
	}
	return !n;
}

int mp_ps_open(struct mp_job *job, int servers, int staleness, struct tutti_ps **ps)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = staleness};

	if (servers >= 0)
		config.role = job->rank < servers ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	return tutti_ps_open(job->world, &config, ps);
}

/* ---- running ---- */

void *mp_shared_mem(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

unsigned long mp_fault_calls(const char *line, const char *kind)
{
	const char *at = strstr(line, "calls that could have failed");
	char want[16];

	snprintf(want, sizeof(want), "%s=", kind);
	at = at ? strstr(at, want) : NULL;
	return at ? strtoul(at + strlen(want), NULL, 10) : 0;
}

/* One word of run->env, with its % signs replaced. */
static void set_word(const char *word, size_t len, const struct mp_job *job)
{
	char text[512], *eq;
	size_t used = 0, i;

	for (i = 0; i < len && used < sizeof(text) - 64; i++) {
		if (word[i] != '%') {
			text[used++] = word[i];
			continue;
		}
		i++;
		if (word[i] == 'd')
			used += (size_t)sprintf(text + used, "%s", job->shared->dir);
		else
			used += (size_t)sprintf(text + used, "%d",
						word[i] == 'r'	 ? job->rank
						: word[i] == 'h' ? job->rank / 2
								 : job->n);
	}
	text[used] = 0;
	eq = strchr(text, '=');
	*eq = 0;
	setenv(text, eq + 1, 1);
}

static void set_env(const struct mp_run *run, const struct mp_job *job)
{
	const char *word = run->env ? run->env : "";
	size_t len;

	/* Bounds for a test that goes wrong; a test may set its own. */
	setenv("TUTTI_TIMEOUT", "30s", 1);
	setenv("TUTTI_INIT_TIMEOUT", "20s", 1);
	if (run->way == MP_DIR)
		setenv("TUTTI_BOOT_DIR", job->shared->dir, 1);
	for (; *word; word += len + (word[len] == ' ')) {
		len = strcspn(word, " ");
		if (len)
			set_word(word, len, job);
	}
}

struct start {
	const struct mp_run *run;
	struct mp_shared *shared;
	pid_t parent;
};

static int finish(struct mp_job *job, int failed)
{
	if (failed) {
		pthread_mutex_lock(&job->log_lock);
		if (job->log[0] && !getenv("TUTTI_TEST_VERBOSE"))
			fprintf(stderr, "rank %d's log:\n%s", job->rank, job->log);
		pthread_mutex_unlock(&job->log_lock);
		return failed; /* the others learn of it as of any death */
	}
	MP_OK(mp_leave(job));
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		return 2;
	return 0;
}

static int body(int rank, int n, void *arg)
{
	struct start *start = arg;
	static struct mp_job job_mem;
	struct mp_job *job = &job_mem;
	struct tutti_config config = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != start->parent)
		return 1;
	*job = (struct mp_job){
		.rank = rank, .n = n, .arg = start->run->arg, .shared = start->shared};
	pthread_mutex_init(&job->log_lock, NULL);
	atomic_store(&job->shared->pid[rank], getpid());
	set_env(start->run, job);
	mp_log_level(job, TUTTI_LOG_WARN);
	if (!start->run->no_init)
		MP_OK(mp_join(job, start->run->way, &config));
	return finish(job, start->run->fn(job));
}

void mp_remove_dir(const char *path)
{
	struct dirent *e;
	DIR *dir = opendir(path);
	char file[400];

	while (dir && (e = readdir(dir))) {
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		unlink(file);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

int mp_run(const struct mp_run *run)
{
	struct start start = {.run = run, .parent = getpid()};
	int failed;

	start.shared = mp_shared_mem(sizeof(*start.shared));
	strcpy(start.shared->dir, "/tmp/tutti-test-XXXXXX");
	if (!mkdtemp(start.shared->dir))
		return run->n;
	failed = tt_run_ranks_that(run->n, body, &start,
				   run->timeout_ms ? run->timeout_ms : MP_BOUND_MS, run->killed,
				   run->may_end);
	mp_remove_dir(start.shared->dir);
	munmap(start.shared, sizeof(*start.shared));
	return failed;
}

static int forbid(int one, int other)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)one, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)other, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	/* threads that there are already may connect, too */
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

int mp_forbid_vm(void)
{
	return forbid(SYS_process_vm_readv, SYS_process_vm_writev);
}

int mp_forbid_vm_write(void)
{
	return forbid(SYS_process_vm_writev, SYS_process_vm_writev);
}

/* ---- memory ---- */

int mp_buf_new(struct mp_job *job, enum mp_kind kind, size_t size, struct mp_buf *buf)
{
	*buf = (struct mp_buf){.kind = kind};
	size += !size;
	if (kind == MP_POOL)
		return tutti_alloc(job->ctx, size, (void **)&buf->p);
	buf->raw = malloc(size);
	buf->p = buf->raw;
	if (!buf->raw)
		return -ENOMEM;
	return kind == MP_REGISTERED ? tutti_register(job->ctx, buf->p, size, &buf->region) : 0;
}

int mp_buf_free(struct mp_buf *buf)
{
	int err = 0;

	if (buf->region)
		err = tutti_deregister(buf->region);
	if (buf->kind == MP_POOL)
		err = tutti_free(buf->p);
	free(buf->raw);
	return err;
}
