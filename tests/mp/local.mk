# SPDX-License-Identifier: BSD-3-Clause
include tests/mp/examples.mk
