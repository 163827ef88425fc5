# SPDX-License-Identifier: BSD-3-Clause
include tests/fault/security.mk
