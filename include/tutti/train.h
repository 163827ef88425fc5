/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libtutti_train: the parts of a training loop around tutti's collectives, a library of its own
 * (pkg-config tutti_train). tutti_training(7) helps to choose among them.
 */
#ifndef TUTTI_TRAIN_H
#define TUTTI_TRAIN_H

#include <tutti/local_steps.h>
#include <tutti/pipeline.h>
#include <tutti/reducer.h>
#include <tutti/sharded.h>
#include <tutti/tutti.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/** tutti_train_version - the version of libtutti_train at run time; it is that of libtutti. */
const char *tutti_train_version(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
