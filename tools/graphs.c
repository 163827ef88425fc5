/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the graphs of --graph; see graphs.h. */
#include "tools/graphs.h"

enum { RING, TORUS, STAR, COMPLETE, EXPONENTIAL, ONE_PEER };
const char *const cli_graph_names[CLI_GRAPHS + 1] = {"ring",	    "torus",	"star", "complete",
						     "exponential", "one_peer", NULL};

/* As square as n ranks allow. */
static int make_torus(int n, struct tutti_graph **graph)
{
	int rows = 1, i;

	for (i = 2; i <= n / i; i++)
		if (n % i == 0)
			rows = i;
	return tutti_graph_torus(rows, n / rows, graph);
}

int cli_graph_make(int kind, int n, struct tutti_graph **graph)
{
	switch (kind) {
	case RING:
		return tutti_graph_ring(n, graph);
	case TORUS:
		return make_torus(n, graph);
	case STAR:
		return tutti_graph_star(n, graph);
	case COMPLETE:
		return tutti_graph_complete(n, graph);
	case EXPONENTIAL:
		return tutti_graph_exponential(n, graph);
	default:
		return tutti_graph_one_peer(n, graph);
	}
}
