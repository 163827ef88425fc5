# SPDX-License-Identifier: BSD-3-Clause
include man/env.mk
include man/perf.mk
