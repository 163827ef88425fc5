/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gloo over its tcp transport, on the network interface COMPARE_IF. The ranks are those of
 * TUTTI_RANK and TUTTI_NRANKS, from any launcher; they meet in the empty directory COMPARE_DIR.
 */
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "perf/compare/drive.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

template <typename T> static void add(void *out, const void *a, const void *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		static_cast<T *>(out)[i] =
			static_cast<const T *>(a)[i] + static_cast<const T *>(b)[i];
}

template <typename T> static void larger(void *out, const void *a, const void *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		T x = static_cast<const T *>(a)[i], y = static_cast<const T *>(b)[i];

		static_cast<T *>(out)[i] = x > y ? x : y;
	}
}

static int call(enum drive_call call, const struct drive_args *a)
{
	if (call == DRIVE_BARRIER) {
		gloo::BarrierOptions o(context);

		gloo::barrier(o);
	} else {
		gloo::AllreduceOptions o(context);

		o.setInput(const_cast<float *>(a->in), a->count);
		o.setOutput(a->out, a->count);
		o.setReduceFunction(add<float>);
		gloo::allreduce(o);
	}
	return 0;
}

static int maximum(double *values, size_t count)
{
	gloo::AllreduceOptions o(context);

	o.setOutput(values, count);
	o.setReduceFunction(larger<double>);
	gloo::allreduce(o);
	return 0;
}

static const char *setting(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "";
}

static int run(int argc, char **argv)
{
	struct peer peer = {};
	gloo::transport::tcp::attr attr;
	gloo::rendezvous::FileStore store(setting("COMPARE_DIR"));

	peer.rank = atoi(setting("TUTTI_RANK"));
	peer.ranks = atoi(setting("TUTTI_NRANKS"));
	peer.call = call;
	peer.calls = 1u << DRIVE_ALLREDUCE;
	peer.max = maximum;
	attr.iface = setting("COMPARE_IF");
	context = std::make_shared<gloo::rendezvous::Context>(peer.rank, peer.ranks);
	auto device = gloo::transport::tcp::CreateDevice(attr);
	context->connectFullMesh(store, device);
	int status = drive(&peer, argc, argv);

	call(DRIVE_BARRIER, nullptr);
	return status;
}

int main(int argc, char **argv)
{
	try {
		return run(argc, argv);
	} catch (const std::exception &e) {
		std::cerr << "drive_gloo: " << e.what() << "\n";
		return 1;
	}
}
