# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_perf.1 man/train_digits.1
