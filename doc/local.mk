# SPDX-License-Identifier: BSD-3-Clause
dist_doc_DATA += doc/ALGORITHMS.md
