/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti: moves and combines training data between the processes of a job.
 * This header includes all the others.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <tutti/error.h>
#include <tutti/comm.h>
#include <tutti/grid.h>
#include <tutti/request.h>
#include <tutti/mem.h>
#include <tutti/coll.h>
#include <tutti/p2p.h>
#include <tutti/rma.h>
#include <tutti/layout.h>
#include <tutti/ps.h>
#include <tutti/codec.h>
#include <tutti/feedback.h>
#include <tutti/lowrank.h>
#include <tutti/graph.h>
#include <tutti/extend.h>
#include <tutti/gossip.h>
#include <tutti/partial.h>
#include <tutti/info.h>

#endif
