/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions of transport verbs about rails, without a device: ports, pairs, shares. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "tests/test.h"
#include "transports/verbs/verbs.h"

enum { ETH = 1, NEAR = 10, FAR = 20 };

static struct vb_port port(const char *name, int num, bool roce, double gbps, int distance)
{
	struct vb_port p = {.num = (uint8_t)num,
			    .fabric = roce ? VB_ROCE : VB_IB,
			    .gbps = gbps,
			    .distance = distance,
			    .usable = true};

	snprintf(p.name, sizeof(p.name), "%s", name);
	return p;
}

static struct vb_port unusable(const char *name, const char *why)
{
	struct vb_port p = port(name, 1, ETH, 100, NEAR);

	p.usable = false;
	snprintf(p.why, sizeof(p.why), "%s", why);
	return p;
}

/* Select, and compare with digits: "02" for ports 0 and 2, "" for none. */
static bool selects(const struct vb_port *all, int n, const char *list, int max, const char *expect,
		    struct vb_choice *c, struct vb_port *ports)
{
	int i;

	memcpy(ports, all, (size_t)n * sizeof(*ports));
	vb_select(ports, n, list, max, c);
	for (i = 0; i < c->n && expect[i]; i++)
		if (c->port[i] != expect[i] - '0')
			return false;
	return (int)strlen(expect) == c->n;
}

static void list_of_ports(void)
{
	const struct vb_port all[] = {
		port("mlx5_0", 1, ETH, 100, NEAR),	port("mlx5_1", 1, ETH, 25, FAR),
		port("mlx4_0", 1, !ETH, 40, NEAR),	port("mlx4_0", 2, ETH, 40, NEAR),
		unusable("mlx5_2", "its link is down"), port("mlx5", 1, ETH, 50, NEAR)};
	struct vb_port p[6];
	struct vb_choice c;

	TT_CHECK(selects(all, 6, "mlx5_0", 1, "0", &c, p));
	TT_CHECK(selects(all, 6, "mlx5_0:1,mlx5_1:1", 1, "01", &c,
			 p)); /* as named, max is not for these */
	TT_CHECK(strstr(p[0].why, "rail 0") && strstr(p[0].why, "80 %"));
	TT_CHECK(strstr(p[1].why, "rail 1") && strstr(p[1].why, "20 %"));
	TT_CHECK(strstr(p[5].why, "does not name it") && p[5].usable);
	TT_CHECK(selects(all, 6, "mlx5_1,mlx5_0", 4, "10", &c, p));
	TT_CHECK(selects(all, 6, "mlx5_0,mlx5_0:1,mlx5_1,", 4, "01", &c, p));
	TT_CHECK(selects(all, 6, "mlx4_0:2,mlx5", 4, "35", &c, p));
}

static bool refused(const char *list, int err, const char *word)
{
	const struct vb_port all[] = {
		port("a", 1, ETH, 100, NEAR),	   port("a", 2, ETH, 100, NEAR),
		port("b", 1, ETH, 100, NEAR),	   port("b", 2, !ETH, 100, NEAR),
		unusable("d", "its link is DOWN"), port("e", 1, ETH, 100, NEAR),
		port("e", 2, ETH, 100, NEAR)};
	struct vb_port p[7];
	struct vb_choice c;
	bool ok = selects(all, 7, list, 4, "", &c, p) && c.err == err && strstr(c.why, word);

	if (!ok)
		printf("# %s: %d ports, %d %s\n", list, c.n, c.err, c.why);
	return ok && !p[0].usable;
}

static void bad_lists(void)
{
	static const char *const malformed[] = {",",
						"a,,b",
						":1",
						"a:",
						"a:x",
						"a:0",
						"a:1x",
						"a:256",
						"a:-1",
						"a:1:2",
						"a_name_that_is_longer_than_any_device_has"};
	unsigned i;

	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		TT_CHECK(refused(malformed[i], -EINVAL, "list of NAME or NAME:PORT"));
	TT_CHECK(refused("c", -ENODEV, "TUTTI_VERBS_DEVICE: no device c"));
	TT_CHECK(refused("a,c", -ENODEV, "no device c"));
	TT_CHECK(refused("a:3", -ENODEV, "no device a with a port 3"));
	TT_CHECK(refused("a,d", -ENODEV, "d/1 cannot be used: its link is DOWN"));
	TT_CHECK(refused("b", -EINVAL, "Ethernet and InfiniBand"));
	TT_CHECK(refused("a,b:1,e", -EINVAL, "at most 4"));
	TT_CHECK(refused("a,b:1,e,e,a:1", -EINVAL, "at most 4"));
}

static void by_themselves(void)
{
	const struct vb_port all[] = {
		port("slow", 1, ETH, 25, NEAR),	 port("half", 1, ETH, 100, NEAR),
		port("best", 1, ETH, 200, NEAR), port("far", 1, ETH, 200, FAR),
		port("ib", 1, !ETH, 100, NEAR),	 port("twin", 1, ETH, 200, NEAR),
		unusable("down", "it is")};
	const struct vb_port far[] = {port("x", 1, !ETH, 100, FAR), port("y", 1, !ETH, 400, 31),
				      port("z", 1, !ETH, 200, FAR)};
	const struct vb_port none[] = {unusable("a", "its link is DOWN"),
				       unusable("b", "it is odd")};
	struct vb_port p[7];
	struct vb_choice c;

	TT_CHECK(selects(all, 7, "", 4, "251", &c, p)); /* the fastest first, then as they come */
	TT_CHECK(strstr(p[0].why, "half as fast") && strstr(p[3].why, "nearer"));
	TT_CHECK(strstr(p[4].why, "Ethernet") && !strcmp(p[6].why, "it is"));
	TT_CHECK(strstr(p[1].why, "20 %") && strstr(p[2].why, "40 %"));
	TT_CHECK(selects(all, 7, "", 2, "25", &c, p));
	TT_CHECK(strstr(p[1].why, "TUTTI_VERBS_RAILS") != NULL);
	TT_CHECK(selects(all, 7, "", 1, "2", &c, p) && strstr(p[2].why, "the fastest"));
	TT_CHECK(selects(far, 3, "", 4, "2", &c, p)); /* near and half as fast beats far */
	TT_CHECK(selects(none, 2, "", 4, "", &c, p) && strstr(c.why, "a/1 cannot be used") != NULL);
	TT_CHECK(!strcmp(p[1].why, "it is odd"));
	TT_CHECK(selects(none, 0, "", 4, "", &c, p) && strstr(c.why, "no RDMA device") != NULL);
}

/*
 * A rail for each letter, in the network it names; '-': not in use, capital: InfiniBand, '?':
 * unknown.
 */
static struct vb_blob blob(const char *nets)
{
	struct vb_blob b = {.magic = VB_MAGIC};

	for (; *nets; nets++) {
		struct vb_rail_addr *a = &b.rail[b.nrails++];

		a->nqp = *nets != '-';
		a->fabric = *nets < 'A' || *nets > 'Z';
		a->routed = a->fabric;
		a->net[0] = *nets == '?' ? 0 : (uint8_t)*nets;
	}
	return b;
}

/* match[] as digits, '-' for none; the peer's result must be the reverse. */
static bool meets(const char *ours, const char *theirs, const char *expect)
{
	struct vb_blob a = blob(ours), b = blob(theirs);
	int there[VB_RAILS], back[VB_RAILS], n, i;
	bool ok = true;

	n = vb_match(&a, &b, there);
	ok = vb_match(&b, &a, back) == n;
	for (i = 0; i < VB_RAILS; i++) {
		if (expect)
			ok = ok && there[i] == (expect[i] == '-' ? -1 : expect[i] - '0');
		if (there[i] >= 0) {
			n--;
			ok = ok && back[there[i]] == i;
		}
	}
	return ok && !n;
}

static void pairs(void)
{
	static const char letters[] = "abAB-?";
	char ours[5] = "", theirs[5] = "";
	uint64_t random = 3;
	int i, k;

	TT_CHECK(meets("a", "a", "0---"));
	TT_CHECK(meets("ab", "ba", "10--")); /* separate networks, listed in another order */
	TT_CHECK(meets("aa", "aa", "01--"));
	TT_CHECK(meets("abcd", "dc", "--10"));
	TT_CHECK(meets("aab", "ba", "1-0-"));
	TT_CHECK(meets("ab", "cd", "01--")); /* routers */
	TT_CHECK(meets("ab", "cb", "-1--"));
	TT_CHECK(meets("??", "??", "01--"));
	TT_CHECK(meets("a-", "-a", "1---")); /* a port that is down */
	TT_CHECK(meets("a-", "-b", "----"));
	TT_CHECK(meets("a", "A", "----"));
	TT_CHECK(meets("AB", "BC", "-0--"));
	for (i = 0; i < 5000; i++) {
		for (k = 0; k < 4; k++) {
			ours[k] = letters[tt_random(&random) % 6];
			theirs[k] = letters[tt_random(&random) % 6];
		}
		ours[1 + tt_random(&random) % 4] = 0;
		theirs[1 + tt_random(&random) % 4] = 0;
		TT_CHECK(meets(ours, theirs, NULL));
	}
}

static bool spreads(const uint32_t *weight, int n, size_t len, int expect)
{
	uint64_t sum, part = 0;
	size_t off = 0, end, share;
	int m = vb_spread(weight, n, len, &sum), i;
	bool ok = m >= 1 && m <= n && (!expect || m == expect);

	for (i = 0; i < m; i++, off = end) {
		part += weight[i];
		end = vb_cut(len, part, sum);
		share = (size_t)((double)len * weight[i] / (double)sum);
		ok = ok && end >= off && end <= len && (end % 4096 == 0 || end == len);
		ok = ok && end - off + 8192 >= share && share + 8192 >= end - off;
		ok = ok && (m == 1 || end - off + 4096 >= VB_SPLIT_MIN);
	}
	return ok && part == sum && off == len;
}

static void shares(void)
{
	static const uint32_t equal[4] = {2500, 2500, 2500, 2500},
			      mixed[3] = {100000, 50000, 100000};
	uint32_t weight[VB_EP_QPS];
	uint64_t random = 7;
	int i, k, n;

	TT_CHECK(spreads(equal, 4, 1, 1) && spreads(equal, 4, 2 * VB_SPLIT_MIN - 1, 1));
	TT_CHECK(spreads(equal, 4, 2 * VB_SPLIT_MIN, 2) && spreads(equal, 4, 3 * VB_SPLIT_MIN, 3));
	TT_CHECK(spreads(equal, 4, 100 << 20, 4) && spreads(equal, 1, 100 << 20, 1));
	TT_CHECK(spreads(mixed, 3, 2 * VB_SPLIT_MIN, 1)); /* the slower would have got too little */
	TT_CHECK(spreads(mixed, 3, 3 * VB_SPLIT_MIN, 2) && spreads(mixed, 3, 5 * VB_SPLIT_MIN, 3));
	TT_CHECK(vb_cut(1000000, 1, 4) == 249856 && vb_cut(1000000, 4, 4) == 1000000);
	TT_CHECK(vb_cut(SIZE_MAX, 1600000, 3200000) == SIZE_MAX / 2 / 4096 * 4096);
	for (i = 0; i < 20000; i++) {
		n = 1 + (int)(tt_random(&random) % VB_EP_QPS);
		for (k = 0; k < n; k++)
			weight[k] = 1 + (uint32_t)(tt_random(&random) % 1600000);
		TT_CHECK(spreads(weight, n, 1 + tt_random(&random) % ((size_t)1 << (10 + i % 30)),
				 0));
	}
}

/* Notes over several devices, and waits, after a READ on each. */
static void flushes(void)
{
	const unsigned note = TT_RMA_NOTE, wait = TT_RMA_REMOTE;
	int spread;

	for (spread = 0; spread < 2; spread++) {
		TT_CHECK(!vb_must_flush(true, 1, spread, 0) && !vb_must_flush(true, 4, spread, 0));
		TT_CHECK(!vb_must_flush(true, 1, spread, note | wait));
		TT_CHECK(vb_must_flush(true, 2, spread,
				       wait)); /* the next word may go by the other */
		TT_CHECK(vb_must_flush(false, 1, spread, wait) &&
			 !vb_must_flush(false, 1, spread, note));
	}
	TT_CHECK(!vb_must_flush(true, 2, false, note)); /* rung by the one that has the bytes */
	TT_CHECK(vb_must_flush(true, 2, true, note) && !vb_must_flush(true, 1, true, note));
}

static void inline_steps(void)
{
	static const int drivers[] = {101, 96, 80, 0}; /* irdma, bnxt_re, siw, rdmavt */
	int most, i, steps;

	for (i = 0; i < 4; i++) {
		for (most = VB_INLINE, steps = 0; most > drivers[i]; steps++)
			most = vb_inline_below(most);
		TT_CHECK(most == drivers[i] && steps < 12);
	}
	TT_CHECK(vb_inline_below(256) == VB_INLINE && vb_inline_below(0) == -1);
}

/* As counted by hand from what rdma-core's providers do. */
static void driver_memory(void)
{
	struct vb_qp_size was = {.send = 132, .sge = 2, .inline_bytes = 256};
	struct vb_qp_size is = {.send = VB_SQ_ALL, .sge = VB_SGE, .inline_bytes = VB_INLINE};
	const size_t slots = 10 * 4096, entries = 2 * 64;
	struct tt_env env = {0};

	/* 132 requests of 512 bytes: 128 KiB, and 16 bytes for each of 2048 blocks */
	TT_CHECK(vb_driver_bytes(VB_MLX5, &was) == 131072 + 32768 + 132 * entries);
	TT_CHECK(vb_driver_bytes(VB_MLX5, &is) == 8192 + 2048 + VB_SQ_ALL * entries);
	is.send++; /* no more fit: 320 bytes each */
	TT_CHECK(vb_driver_bytes(VB_MLX5, &is) == 16384 + 4096 + (VB_SQ_ALL + 1) * entries);
	is.send--;
	/* 25 requests of 4 quanta and 258: 512 */
	is.inline_bytes = 101;
	TT_CHECK(vb_driver_bytes(VB_IRDMA, &is) == 512 * 48 + 4096 + 8 + VB_SQ_ALL * entries);
	is.inline_bytes = 96; /* 25 and 129: 256 requests */
	TT_CHECK(vb_driver_bytes(VB_BNXT_RE, &is) == 256 * 176 + VB_SQ_ALL * entries);
	TT_CHECK(vb_driver_named("mlx5_core") == VB_MLX5 &&
		 vb_driver_named("bnxt_en") == VB_BNXT_RE);
	TT_CHECK(vb_driver_named("ice") == VB_IRDMA && vb_driver_named("") == VB_OTHER);
	/* mlx5's whole peer, with the slots for messages and the channel */
	is.inline_bytes = VB_INLINE;
	TT_CHECK(slots + 1024 + sizeof(struct vb_ep) + sizeof(struct vb_blob) +
			 sizeof(struct vb_qp) + vb_driver_bytes(VB_MLX5, &is) <
		 65536);
	TT_CHECK(!tt_env_load(&env));
	TT_CHECK(tt_verbs_tp.peer_bytes(&env) > sizeof(struct vb_qp) + 8192);
	tt_env_free(&env);
}

static struct ibv_gid_entry gid(const char *text, uint32_t type)
{
	struct ibv_gid_entry g = {.gid_type = type};

	TT_CHECK(inet_pton(AF_INET6, text, g.gid.raw) == 1);
	return g;
}

static int rank_of(const char *text, uint32_t type, bool here)
{
	struct ibv_gid_entry g = gid(text, type);

	return vb_gid_rank(&g, here);
}

static void gids(void)
{
	const int v1 = IBV_GID_TYPE_ROCE_V1, v2 = IBV_GID_TYPE_ROCE_V2;
	const uint8_t mac[6] = {0xa2, 0xed, 0xd3, 0x41, 0x6a, 0xf8};
	struct ibv_gid_entry own = gid("fe80::a0ed:d3ff:fe41:6af8", v2);

	TT_CHECK(rank_of("::ffff:10.0.0.1", v2, true) > rank_of("fd00::1", v2, true));
	TT_CHECK(rank_of("fd00::1", v2, true) > rank_of("fe80::1", v2, true));
	TT_CHECK(rank_of("fe80::1", v2, true) > rank_of("::ffff:10.0.0.1", v1, true));
	TT_CHECK(rank_of("::ffff:10.0.0.1", v1, true) > 0);
	/* Of another network namespace; empty; not of RoCE. */
	TT_CHECK(!rank_of("::ffff:10.0.0.1", v2, false) && !rank_of("::", v2, true));
	TT_CHECK(!rank_of("fe80::1", IBV_GID_TYPE_IB, true));
	TT_CHECK(vb_gid_is_of_mac(own.gid.raw, mac));
	own.gid.raw[15] ^= 1;
	TT_CHECK(!vb_gid_is_of_mac(own.gid.raw, mac));
}

/* Ports of different RoCE versions do not reach each other. */
static void versions(void)
{
	struct vb_blob a = blob("ab"), b = blob("ab");
	int match[VB_RAILS];

	b.rail[0].fabric = VB_ROCE_V1;
	TT_CHECK(vb_match(&a, &b, match) == 1 && match[0] < 0 && match[1] == 1);
	b.rail[1].fabric = VB_ROCE_V1;
	TT_CHECK(!vb_match(&a, &b, match));
	TT_CHECK(vb_is_roce(VB_ROCE) && vb_is_roce(VB_ROCE_V1) && !vb_is_roce(VB_IB) &&
		 !vb_is_roce(VB_IWARP));
}

/* The decision of both ends; -1: they differ. listen: our and their listening ports. */
static int way(const char *ours, const char *theirs, const char *listen, int *rail)
{
	struct vb_blob a = blob(ours), b = blob(theirs);
	int match[VB_RAILS], i, there, here;

	for (i = 0; i < VB_RAILS; i++) {
		a.rail[i].port = strchr(listen, '0' + i) != NULL;
		b.rail[i].port = strchr(listen, 'a' + i) != NULL;
		a.rail[i].cm = strchr(listen, '+') != NULL;
		b.rail[i].cm = strchr(listen, '+') != NULL || strchr(listen, '-') != NULL;
	}
	TT_CHECK(vb_match(&b, &a, match) > 0);
	there = vb_way(&b, &a, match, rail);
	vb_match(&a, &b, match);
	here = vb_way(&a, &b, match, rail);
	if (there == VB_WAY_NO_CM_HERE || there == VB_WAY_NO_CM_THERE)
		there = there == VB_WAY_NO_CM_HERE ? VB_WAY_NO_CM_THERE : VB_WAY_NO_CM_HERE;
	return here == there ? here : -1;
}

static void ways(void)
{
	int rail = -1;

	TT_CHECK(way("A", "A", "0a", &rail) == VB_WAY_DIRECT);
	TT_CHECK(way("A", "A", "", &rail) == VB_WAY_DIRECT);
	TT_CHECK(way("a", "b", "", &rail) == VB_WAY_DIRECT);
	TT_CHECK(way("A", "B", "0a", &rail) == VB_WAY_CM);
	TT_CHECK(way("A", "A", "0a+", &rail) == VB_WAY_CM);
	TT_CHECK(way("AB", "CA", "01ab", &rail) == VB_WAY_DIRECT); /* one network is common */
	TT_CHECK(way("AB", "CD", "01ab", &rail) == VB_WAY_CM);
	TT_CHECK(way("AB", "CD", "01a", &rail) == VB_WAY_NO_CM_THERE && rail == 1);
	TT_CHECK(way("AB", "CD", "1ab", &rail) == VB_WAY_NO_CM_HERE && rail == 0);
	TT_CHECK(way("A", "A", "0a-", &rail) == VB_WAY_DIFFER);
}

static void last_receives(void)
{
	struct vb_rail shared = {.recvq = {.srq = (void *)&shared}}, own = {.index = 0};
	struct vb_qp q = {.rail = &shared};

	TT_CHECK(!vb_holds_receives(&q)); /* it has never received */
	q.receives = true;
	TT_CHECK(vb_holds_receives(&q));
	q.last = true;
	TT_CHECK(!vb_holds_receives(&q));
	q.last = false;
	shared.mute = true; /* a device that does not tell */
	TT_CHECK(!vb_holds_receives(&q));
	shared.mute = false;
	shared.dead = true;
	TT_CHECK(!vb_holds_receives(&q));
	q.rail = &own;
	TT_CHECK(!vb_holds_receives(&q));
}

static void subnets(void)
{
	struct vb_blob a = blob("ABab"), b = blob("AAcb");

	TT_CHECK(!vb_needs_cm(&a.rail[0], &b.rail[0]) && vb_needs_cm(&a.rail[1], &b.rail[1]));
	TT_CHECK(!vb_needs_cm(&a.rail[2], &b.rail[2])); /* IP routes between RoCE ports */
}

static void outages(void)
{
	uint64_t from = 0, left = 0, now = 5 * TT_SEC, total = 0, ms;
	int i;

	TT_CHECK(vb_port_verdict(false, true, false) == VB_PORT_STAY);
	TT_CHECK(vb_port_verdict(true, false, false) == VB_PORT_STAY);
	TT_CHECK(vb_port_verdict(true, true, true) == VB_PORT_LEAVE);
	TT_CHECK(vb_port_verdict(true, true, false) == VB_PORT_END);
	/* 100 peers that do not answer cost 20 ms, and 1 ms each. */
	for (i = 0; i < 100; i++) {
		ms = vb_bye_wait(&from, &left, now, VB_BYE_MS);
		vb_bye_used(&left, ms * TT_MS);
		now += ms * TT_MS;
		total += ms;
	}
	TT_CHECK(total <= VB_BYE_MS + 100);
	TT_CHECK(vb_bye_wait(&from, &left, now + TT_SEC, VB_BYE_MS) == VB_BYE_MS);
}

static void losses(void)
{
	static const enum ibv_wr_opcode op[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						IBV_WR_RDMA_READ, IBV_WR_SEND,
						IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct vb_lost lost = {0};
	struct vb_req req = {.kind = VB_MARK, .opcode = IBV_WR_SEND};
	char text[VB_LOST_TEXT];
	unsigned i, k;

	vb_lose(&lost, &req); /* our own are nobody's loss */
	TT_CHECK(!vb_lost_text(&lost, text) && !text[0]);
	req.kind = VB_OP;
	for (i = 0; i < 5; i++)
		for (k = 0; k <= i; k++) {
			req.opcode = (uint16_t)op[i];
			vb_lose(&lost, &req);
		}
	TT_CHECK(vb_lost_text(&lost, text));
	TT_CHECK(!strcmp(text, "1 put, 2 put with notification, 3 gets, 5 atomics, 4 messages"));
	lost = (struct vb_lost){~0u, ~0u, ~0u, ~0u, ~0u};
	TT_CHECK(vb_lost_text(&lost, text) && strlen(text) + sizeof(" lost") <= sizeof(text));
}

/* A library that is there, and no descriptor to open it with: not a package that is missing. */
static void library_without_files(void)
{
	struct rlimit old, none;
	int err;

	TT_CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	none = (struct rlimit){3, old.rlim_max};
	TT_CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	err = vb_load_rdmacm();
	TT_CHECK(!setrlimit(RLIMIT_NOFILE, &old));
	if (!err)
		TT_SKIP("librdmacm is loaded already");
	TT_CHECK(err == -EMFILE && strstr(tt_fail_text(err), "ulimit -n") &&
		 !strstr(tt_fail_text(err), "install"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"list_of_ports", list_of_ports},
					       {"bad_lists", bad_lists},
					       {"by_themselves", by_themselves},
					       {"pairs", pairs},
					       {"shares", shares},
					       {"flushes", flushes},
					       {"inline_steps", inline_steps},
					       {"driver_memory", driver_memory},
					       {"gids", gids},
					       {"versions", versions},
					       {"subnets", subnets},
					       {"ways", ways},
					       {"last_receives", last_receives},
					       {"outages", outages},
					       {"losses", losses},
					       {"library_without_files", library_without_files},
					       {NULL, NULL}};

	return tt_test_main("rails", tests, argc, argv);
}
