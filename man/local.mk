# SPDX-License-Identifier: BSD-3-Clause
include man/perf.mk
