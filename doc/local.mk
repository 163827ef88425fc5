# SPDX-License-Identifier: BSD-3-Clause
dist_doc_DATA += README.md NEWS CONTRIBUTING.md doc/ADDING-A-TRANSPORT.md \
	doc/ADDING-AN-ALGORITHM.md doc/ALGORITHMS.md doc/ARCHITECTURE.md doc/COMPARE.md \
	doc/INTERNALS.md doc/MEASUREMENTS.md doc/PYTHON.md doc/ROBUSTNESS.md doc/RUNNING.md \
	doc/STATUS.md doc/THREADS.md doc/TRAINING.md doc/WIRE.md doc/allreduce.svg doc/compare.svg \
	doc/training-bytes.svg doc/training-seconds.svg doc/shares.svg
EXTRA_DIST += tests/README.md
