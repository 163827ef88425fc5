# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_set_last_error.3 man/tutti_rule_apply.3 man/tutti_rule_states.3 \
	man/tutti_train_version.3
