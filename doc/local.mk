# SPDX-License-Identifier: BSD-3-Clause
dist_doc_DATA += README.md NEWS \
	doc/ALGORITHMS.md doc/ARCHITECTURE.md doc/COMPARE.md doc/compare.svg doc/RUNNING.md doc/STATUS.md doc/THREADS.md doc/WIRE.md
