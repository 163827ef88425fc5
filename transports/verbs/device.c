/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports and GIDs: which exist, which are used, and why the others are not. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/lists.h"

#define PORTS_MAX 64
#define GIDS_MAX 64
#define FEW_FILES 4 /* descriptors that it takes to find a device and open it */

static double gbps_of(const struct ibv_port_attr *attr)
{
	static const struct {
		uint8_t code;
		double gbps;
	} speeds[] = {{1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}};
	static const struct {
		uint8_t code;
		int lanes;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	double gbps = 0;
	unsigned i;

	for (i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (speeds[i].code == attr->active_speed)
			gbps = speeds[i].gbps;
	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i].code == attr->active_width)
			return gbps * widths[i].lanes;
	return gbps;
}

static int node_of(const struct ibv_device *dev)
{
	char path[512];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/device/numa_node", dev->ibdev_path);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

/*
 * libnuma's measure, from the nearest node this process may run on: to a process that may run
 * everywhere all are near. 10: the same node, or unknown.
 */
static int distance_to(int node)
{
	int best = 0, from, d;
	struct bitmask *mine;

	if (node < 0 || numa_available() < 0)
		return 10;
	mine = numa_get_run_node_mask();
	for (from = 0; mine && from <= numa_max_node(); from++) {
		d = numa_bitmask_isbitset(mine, (unsigned)from) ? numa_distance(from, node) : 0;
		if (d > 0 && (!best || d < best))
			best = d;
	}
	if (mine)
		numa_free_nodemask(mine);
	return best ? best : 10;
}

/* The bytes of an address of any family as a GID; 0 or -1. */
static int as_gid(const struct sockaddr *sa, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return 0;
	}
	if (!sa || sa->sa_family != AF_INET)
		return -1;
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	return 0;
}

/*
 * In this network namespace there is the interface, and it has the address. A GID of others does
 * not answer.
 */
static bool is_here(const struct ifaddrs *all, const struct ibv_gid_entry *gid)
{
	const struct sockaddr_ll *link;
	const struct ifaddrs *ifa;
	uint8_t addr[16];

	for (ifa = all; ifa; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || if_nametoindex(ifa->ifa_name) != gid->ndev_ifindex)
			continue;
		if (!as_gid(ifa->ifa_addr, addr) && !memcmp(addr, gid->gid.raw, sizeof(addr)))
			return true;
		link = (const struct sockaddr_ll *)ifa->ifa_addr;
		if (link->sll_family == AF_PACKET && link->sll_halen == 6 &&
		    vb_gid_is_of_mac(gid->gid.raw, link->sll_addr))
			return true;
	}
	return !gid->ndev_ifindex; /* the device does not say of which */
}

/* 0, or why not in port->why. */
int vb_port_gid(struct vb_port *port, struct ibv_context *ctx, int64_t asked)
{
	bool roce = vb_is_roce(port->fabric);
	struct ibv_gid_entry gid, best = {0};
	int i, found = asked >= 0 ? (int)asked : roce ? -1 : 0, most = 0, rank;
	struct ifaddrs *all = NULL;

	if (roce && asked < 0 && getifaddrs(&all)) {
		i = errno;
		snprintf(port->why, sizeof(port->why), "addresses here cannot be read: %s",
			 strerror(i));
		return -i;
	}
	for (i = 0; roce && asked < 0 && i < port->attr.gid_tbl_len && i < GIDS_MAX; i++) {
		if (ibv_query_gid_ex(ctx, port->num, (uint32_t)i, &gid, 0))
			continue;
		rank = vb_gid_rank(&gid, is_here(all, &gid));
		if (rank <= most)
			continue;
		most = rank;
		best = gid;
		found = i;
	}
	if (all)
		freeifaddrs(all);
	port->gid_index = found;
	if (found >= 0 && !most && roce &&
	    !ibv_query_gid_ex(ctx, port->num, (uint32_t)found, &gid, 0))
		best = gid;
	if (roce)
		port->fabric = best.gid_type == IBV_GID_TYPE_ROCE_V1 ? VB_ROCE_V1 : VB_ROCE;
	if (found >= 0 && !ibv_query_gid(ctx, port->num, found, &port->gid))
		return 0;
	if (found >= 0)
		snprintf(port->why, sizeof(port->why),
			 "it has no GID of index %d (TUTTI_VERBS_GID)", found);
	else
		snprintf(port->why, sizeof(port->why),
			 "it has no GID of an interface here: give its interface an address");
	return -EADDRNOTAVAIL;
}

/*
 * InfiniBand: the subnet prefix. RoCE: by the mask of the interface that has the GID as its
 * address.
 */
int vb_port_net(struct vb_port *port)
{
	uint8_t addr[16], mask[16];
	struct ifaddrs *all, *ifa;
	int i;

	memset(port->net, 0, sizeof(port->net));
	port->routed = vb_is_roce(port->fabric) && port->subnet < 0;
	if (port->subnet >= 0)
		snprintf((char *)port->net, sizeof(port->net), "subnet %d", port->subnet % 10000);
	if (port->fabric == VB_IWARP || port->subnet >= 0)
		return 0; /* its GID is no address */
	if (port->fabric == VB_IB) {
		memcpy(port->net, port->gid.raw, 8);
		return 0;
	}
	if (getifaddrs(&all)) {
		i = errno;
		snprintf(port->why, sizeof(port->why), "its network cannot be read: %s",
			 strerror(i));
		return -i;
	}
	for (ifa = all; ifa; ifa = ifa->ifa_next) {
		if (as_gid(ifa->ifa_addr, addr) || memcmp(addr, port->gid.raw, 16) ||
		    as_gid(ifa->ifa_netmask, mask))
			continue;
		for (i = 0; i < 16; i++)
			port->net[i] = addr[i] & mask[i];
	}
	freeifaddrs(all);
	return 0;
}

static bool has_what_it_takes(struct vb_port *port)
{
	const char *lacks = NULL;

	if (port->dev.max_qp < 2 || port->dev.max_qp_rd_atom < 1)
		lacks = "reliable connections with reads";
	if (lacks)
		snprintf(port->why, sizeof(port->why), "the device has no %s", lacks);
	return !lacks;
}

static void inspect(struct vb_port *port, struct ibv_context *ctx, const struct tt_env *env)
{
	if (ibv_query_port(ctx, port->num, &port->attr)) {
		snprintf(port->why, sizeof(port->why), "it cannot be queried: %s", strerror(errno));
		return;
	}
	if (port->fabric != VB_IWARP && port->attr.link_layer == IBV_LINK_LAYER_ETHERNET)
		port->fabric = VB_ROCE;
	port->gbps = gbps_of(&port->attr);
	if (port->attr.state != IBV_PORT_ACTIVE)
		snprintf(port->why, sizeof(port->why), "its link is %s",
			 ibv_port_state_str(port->attr.state));
	else if (port->fabric == VB_IB && !port->attr.lid)
		snprintf(port->why, sizeof(port->why),
			 "it has no LID: is a subnet manager running?");
	else
		port->usable = has_what_it_takes(port) &&
			       !vb_port_gid(port, ctx, env->verbs_gid.number) && !vb_port_net(port);
}

/*
 * No query reports immediate data and the meaning of a WRITE's completion; both follow from the
 * protocol.
 */
static void set_capabilities(struct vb_port *port, const char *list)
{
	struct tt_verbs_mask mask;

	tt_verbs_mask_parse(list, &mask); /* vb_choose reports unknown words */
	port->imm = port->fabric != VB_IWARP && !mask.imm;
	port->placed = port->fabric != VB_IWARP && !mask.placed;
	port->atomic = port->dev.atomic_cap != IBV_ATOMIC_NONE && !mask.atomic;
	port->srq = port->dev.max_srq > 0 && port->dev.max_srq_wr >= 64 && !mask.srq;
	port->resize = !mask.resize; /* until it refuses */
	port->inline_most = mask.inline_most;
	port->subnet = mask.subnet;
}

/* Every port of one device; returns how many are in ports now. */
static int inspect_device(struct ibv_device *dev, const struct tt_env *env, struct vb_port *ports,
			  int n)
{
	struct vb_port common = {.num = 1, .numa = node_of(dev)};
	struct ibv_context *ctx;
	int i, err;

	snprintf(common.name, sizeof(common.name), "%s", ibv_get_device_name(dev));
	common.distance = distance_to(common.numa);
	common.fabric = dev->transport_type == IBV_TRANSPORT_IWARP ? VB_IWARP : VB_IB;
	errno = 0;
	ctx = ibv_open_device(dev);
	err = ctx ? ibv_query_device(ctx, &common.dev) : vb_errno(ENODEV);
	if (err) {
		common.dev = (struct ibv_device_attr){0};
		snprintf(common.why, sizeof(common.why), "it cannot be opened: %s%s",
			 tutti_strerror(-err),
			 err == EMFILE
				 ? ""
				 : " (/dev/infiniband/uverbs* must be readable and writable)");
		ports[n++] = common;
	}
	set_capabilities(&common, env->verbs_mask.text);
	for (i = 1; ctx && i <= common.dev.phys_port_cnt && n < PORTS_MAX; i++, n++) {
		ports[n] = common;
		ports[n].num = (uint8_t)i;
		inspect(&ports[n], ctx, env);
	}
	if (ctx)
		ibv_close_device(ctx);
	return n;
}

int vb_few_files(void)
{
	int fd[FEW_FILES], n = 0, err;

	while (n < FEW_FILES && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	err = n < FEW_FILES ? errno : 0;
	while (n)
		close(fd[--n]);
	return err == EMFILE || err == ENFILE ? -err : 0;
}

static void blame_files(struct vb_choice *choice)
{
	int err = vb_few_files();

	if (!err)
		return;
	choice->err = err;
	snprintf(choice->why, sizeof(choice->why), "RDMA devices can't be looked at: %s",
		 tutti_strerror(err));
}

/* All ports there are, and which to use. */
static int find_ports(const struct tt_env *env, struct vb_port *ports, struct vb_choice *choice)
{
	struct ibv_device **list;
	int n = 0, ndev = 0, i, err = vb_load_ibverbs();

	*choice = (struct vb_choice){.err = err};
	if (err) {
		snprintf(choice->why, sizeof(choice->why), "%s", tt_fail_text(err));
		return 0;
	}
	list = ibv_get_device_list(&ndev);
	for (i = 0; list && i < ndev && n < PORTS_MAX; i++)
		n = inspect_device(list[i], env, ports, n);
	if (list)
		ibv_free_device_list(list);
	vb_select(ports, n, env->verbs_device.text, (int)env->verbs_rails.number, choice);
	if (!choice->n)
		blame_files(choice);
	return n;
}

const char *vb_fabric_name(unsigned fabric)
{
	static const char *const name[] = {"InfiniBand", "RoCE", "iWARP", "RoCE version 1"};

	return fabric < sizeof(name) / sizeof(name[0]) ? name[fabric] : "of an unknown kind";
}

static void describe(const struct vb_port *port, struct tt_tp_device *dev)
{
	const char *fabric = vb_fabric_name(port->fabric);
	char gid[INET6_ADDRSTRLEN] = "", lid[16] = "";

	memset(dev, 0, sizeof(*dev));
	snprintf(dev->name, sizeof(dev->name), "%s/%u", port->name, port->num);
	inet_ntop(AF_INET6, port->gid.raw, gid, sizeof(gid));
	if (port->fabric == VB_IB)
		snprintf(lid, sizeof(lid), ", LID %u", port->attr.lid);
	if (port->usable)
		snprintf(dev->detail, sizeof(dev->detail), "%s%s, GID %d %s, MTU %d%s%s%s", fabric,
			 lid, port->gid_index, gid, 128 << port->attr.active_mtu,
			 port->imm ? "" : ", no immediate data", port->atomic ? "" : ", no atomics",
			 port->srq ? "" : ", no shared receive queues");
	else
		snprintf(dev->detail, sizeof(dev->detail), "%s",
			 port->attr.state ? fabric : "RDMA");
	dev->gbps = port->gbps;
	dev->numa = port->numa;
	dev->usable = port->usable;
	snprintf(dev->why, sizeof(dev->why), "%s", port->why);
}

int vb_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	struct vb_port *ports = calloc(PORTS_MAX, sizeof(*ports));
	struct vb_choice choice;
	int n, i;

	if (!ports)
		return 0;
	n = find_ports(params->env, ports, &choice);
	for (i = 0; i < n && i < max; i++)
		describe(&ports[i], &dev[i]);
	free(ports);
	if (n || max < 1)
		return n ? n : 1;
	*dev = (struct tt_tp_device){.name = "verbs", .numa = -1};
	snprintf(dev->detail, sizeof(dev->detail), "RDMA devices through libibverbs");
	snprintf(dev->why, sizeof(dev->why), "%s", choice.why);
	return 1;
}

int vb_choose(const struct tt_tp_params *params, struct vb_port chosen[VB_RAILS])
{
	struct vb_choice choice;
	struct tt_verbs_mask mask;
	struct vb_port *ports;
	int i, err = tt_verbs_mask_parse(params->env->verbs_mask.text, &mask);

	if (err)
		return err;
	ports = calloc(PORTS_MAX, sizeof(*ports));
	if (!ports)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	find_ports(params->env, ports, &choice);
	for (i = 0; i < choice.n; i++)
		chosen[i] = ports[choice.port[i]];
	free(ports);
	return choice.n ? choice.n : tt_fail(choice.err, "verbs: %s", choice.why);
}
