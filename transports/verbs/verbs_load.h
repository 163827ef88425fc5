/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs and librdmacm, loaded on first use. Calls are written as usual: some are inline
 * functions of the headers that use the device's own table; the exported functions go through these
 * tables. An inline function of the headers that calls an exported one is replaced here.
 */
#ifndef VB_LOAD_H
#define VB_LOAD_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_reg_mr

/* VB_FUNCTION(name, symbol version) */
#define VB_IBV_FUNCTIONS                                                                           \
	VB_FUNCTION(_ibv_query_gid_ex, "IBVERBS_1.11")                                             \
	VB_FUNCTION(ibv_ack_async_event, "IBVERBS_1.1")                                            \
	VB_FUNCTION(ibv_ack_cq_events, "IBVERBS_1.1")                                              \
	VB_FUNCTION(ibv_alloc_pd, "IBVERBS_1.1")                                                   \
	VB_FUNCTION(ibv_close_device, "IBVERBS_1.1")                                               \
	VB_FUNCTION(ibv_create_comp_channel, "IBVERBS_1.0")                                        \
	VB_FUNCTION(ibv_create_cq, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_create_qp, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_create_srq, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_dealloc_pd, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_dereg_mr, "IBVERBS_1.1")                                                   \
	VB_FUNCTION(ibv_destroy_comp_channel, "IBVERBS_1.0")                                       \
	VB_FUNCTION(ibv_destroy_cq, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_destroy_qp, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_destroy_srq, "IBVERBS_1.1")                                                \
	VB_FUNCTION(ibv_event_type_str, "IBVERBS_1.1")                                             \
	VB_FUNCTION(ibv_fork_init, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_free_device_list, "IBVERBS_1.1")                                           \
	VB_FUNCTION(ibv_get_async_event, "IBVERBS_1.1")                                            \
	VB_FUNCTION(ibv_get_cq_event, "IBVERBS_1.1")                                               \
	VB_FUNCTION(ibv_get_device_list, "IBVERBS_1.1")                                            \
	VB_FUNCTION(ibv_get_device_name, "IBVERBS_1.1")                                            \
	VB_FUNCTION(ibv_modify_qp, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_modify_srq, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_open_device, "IBVERBS_1.1")                                                \
	VB_FUNCTION(ibv_port_state_str, "IBVERBS_1.1")                                             \
	VB_FUNCTION(ibv_query_device, "IBVERBS_1.1")                                               \
	VB_FUNCTION(ibv_query_gid, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_query_port, "IBVERBS_1.1")                                                 \
	VB_FUNCTION(ibv_query_qp, "IBVERBS_1.1")                                                   \
	VB_FUNCTION(ibv_reg_mr, "IBVERBS_1.1")                                                     \
	VB_FUNCTION(ibv_reg_mr_iova2, "IBVERBS_1.8")                                               \
	VB_FUNCTION(ibv_resize_cq, "IBVERBS_1.1")                                                  \
	VB_FUNCTION(ibv_wc_status_str, "IBVERBS_1.1")

#define VB_RDMA_FUNCTIONS                                                                          \
	VB_FUNCTION(rdma_accept, "RDMACM_1.0")                                                     \
	VB_FUNCTION(rdma_ack_cm_event, "RDMACM_1.0")                                               \
	VB_FUNCTION(rdma_bind_addr, "RDMACM_1.0")                                                  \
	VB_FUNCTION(rdma_connect, "RDMACM_1.0")                                                    \
	VB_FUNCTION(rdma_create_event_channel, "RDMACM_1.0")                                       \
	VB_FUNCTION(rdma_create_id, "RDMACM_1.0")                                                  \
	VB_FUNCTION(rdma_destroy_event_channel, "RDMACM_1.0")                                      \
	VB_FUNCTION(rdma_destroy_id, "RDMACM_1.0")                                                 \
	VB_FUNCTION(rdma_establish, "RDMACM_1.2")                                                  \
	VB_FUNCTION(rdma_event_str, "RDMACM_1.0")                                                  \
	VB_FUNCTION(rdma_get_cm_event, "RDMACM_1.0")                                               \
	VB_FUNCTION(rdma_get_src_port, "RDMACM_1.0")                                               \
	VB_FUNCTION(rdma_init_qp_attr, "RDMACM_1.2")                                               \
	VB_FUNCTION(rdma_listen, "RDMACM_1.0")                                                     \
	VB_FUNCTION(rdma_reject, "RDMACM_1.0")                                                     \
	VB_FUNCTION(rdma_resolve_addr, "RDMACM_1.0")                                               \
	VB_FUNCTION(rdma_resolve_route, "RDMACM_1.0")                                              \
	VB_FUNCTION(rdma_set_option, "RDMACM_1.0")

#define VB_FUNCTION(name, version) __typeof__(name) *name;
struct vb_ibv_functions {
	VB_IBV_FUNCTIONS
};
struct vb_rdma_functions {
	VB_RDMA_FUNCTIONS
};
#undef VB_FUNCTION

extern struct vb_ibv_functions vb_ibv;
extern struct vb_rdma_functions vb_rdma;

/* Load libibverbs, librdmacm: 0, or -TUTTI_ETRANSPORT. No other function of them may be called
 * before. */
int vb_load_ibverbs(void);
int vb_load_rdmacm(void);

static inline int vb_query_port(struct ibv_context *ctx, uint8_t num, struct ibv_port_attr *attr)
{
	struct verbs_context *v = verbs_get_ctx_op(ctx, query_port);

	if (v)
		return v->query_port(ctx, num, attr, sizeof(*attr));
	memset(attr, 0, sizeof(*attr)); /* an older libibverbs knows less of it */
	return vb_ibv.ibv_query_port(ctx, num, (struct _compat_ibv_port_attr *)attr);
}

static inline struct ibv_mr *vb_reg_mr(struct ibv_pd *pd, void *addr, size_t len, unsigned access)
{
	if (access & IBV_ACCESS_OPTIONAL_RANGE)
		return vb_ibv.ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, access);
	return vb_ibv.ibv_reg_mr(pd, addr, len, (int)access);
}

#ifndef VB_LOAD_TABLES /* verbs_load.c needs the bare names */
#define ibv_ack_async_event vb_ibv.ibv_ack_async_event
#define ibv_ack_cq_events vb_ibv.ibv_ack_cq_events
#define ibv_alloc_pd vb_ibv.ibv_alloc_pd
#define ibv_close_device vb_ibv.ibv_close_device
#define ibv_create_comp_channel vb_ibv.ibv_create_comp_channel
#define ibv_create_cq vb_ibv.ibv_create_cq
#define ibv_create_qp vb_ibv.ibv_create_qp
#define ibv_create_srq vb_ibv.ibv_create_srq
#define ibv_dealloc_pd vb_ibv.ibv_dealloc_pd
#define ibv_dereg_mr vb_ibv.ibv_dereg_mr
#define ibv_destroy_comp_channel vb_ibv.ibv_destroy_comp_channel
#define ibv_destroy_cq vb_ibv.ibv_destroy_cq
#define ibv_destroy_qp vb_ibv.ibv_destroy_qp
#define ibv_destroy_srq vb_ibv.ibv_destroy_srq
#define ibv_event_type_str vb_ibv.ibv_event_type_str
#define ibv_fork_init vb_ibv.ibv_fork_init
#define ibv_free_device_list vb_ibv.ibv_free_device_list
#define ibv_get_async_event vb_ibv.ibv_get_async_event
#define ibv_get_cq_event vb_ibv.ibv_get_cq_event
#define ibv_get_device_list vb_ibv.ibv_get_device_list
#define ibv_get_device_name vb_ibv.ibv_get_device_name
#define ibv_modify_qp vb_ibv.ibv_modify_qp
#define ibv_modify_srq vb_ibv.ibv_modify_srq
#define ibv_open_device vb_ibv.ibv_open_device
#define ibv_port_state_str vb_ibv.ibv_port_state_str
#define ibv_query_device vb_ibv.ibv_query_device
#define ibv_query_gid vb_ibv.ibv_query_gid
#define ibv_query_qp vb_ibv.ibv_query_qp
#define ibv_resize_cq vb_ibv.ibv_resize_cq
#define ibv_wc_status_str vb_ibv.ibv_wc_status_str
#define ibv_query_port vb_query_port
#define ibv_reg_mr vb_reg_mr
#define ibv_query_gid_ex(ctx, num, index, entry, flags)                                            \
	vb_ibv._ibv_query_gid_ex(ctx, num, index, entry, flags, sizeof(*(entry)))
#define rdma_accept vb_rdma.rdma_accept
#define rdma_ack_cm_event vb_rdma.rdma_ack_cm_event
#define rdma_bind_addr vb_rdma.rdma_bind_addr
#define rdma_connect vb_rdma.rdma_connect
#define rdma_create_event_channel vb_rdma.rdma_create_event_channel
#define rdma_create_id vb_rdma.rdma_create_id
#define rdma_destroy_event_channel vb_rdma.rdma_destroy_event_channel
#define rdma_destroy_id vb_rdma.rdma_destroy_id
#define rdma_establish vb_rdma.rdma_establish
#define rdma_event_str vb_rdma.rdma_event_str
#define rdma_get_cm_event vb_rdma.rdma_get_cm_event
#define rdma_get_src_port vb_rdma.rdma_get_src_port
#define rdma_init_qp_attr vb_rdma.rdma_init_qp_attr
#define rdma_listen vb_rdma.rdma_listen
#define rdma_reject vb_rdma.rdma_reject
#define rdma_resolve_addr vb_rdma.rdma_resolve_addr
#define rdma_resolve_route vb_rdma.rdma_resolve_route
#define rdma_set_option vb_rdma.rdma_set_option
#endif

#endif
