# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_set_last_error.3 man/tutti_rule_apply.3 man/tutti_rule_states.3 \
	man/tutti_train_version.3 \
	man/tutti_pipeline_attach.3 man/tutti_pipeline_count.3 man/tutti_pipeline_create.3 \
	man/tutti_pipeline_free.3 man/tutti_pipeline_run.3 man/tutti_pipeline_steps.3
