# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_sharded_create.3 man/tutti_sharded_free.3 man/tutti_sharded_ready.3 \
	man/tutti_sharded_step.3 man/tutti_sharded_wait.3 man/tutti_sharded_memory.3 \
	man/tutti_sharded_save.3 man/tutti_sharded_restore.3
dist_man_MANS += man/tutti_local_steps_create.3 man/tutti_local_steps_free.3 \
	man/tutti_local_steps_step.3 man/tutti_local_steps_finish.3
dist_man_MANS += man/tutti_set_last_error.3 man/tutti_comm_set_owner.3 \
	man/tutti_rule_apply.3 man/tutti_rule_states.3 \
	man/tutti_train_version.3 \
	man/tutti_pipeline_attach.3 man/tutti_pipeline_count.3 man/tutti_pipeline_create.3 \
	man/tutti_pipeline_free.3 man/tutti_pipeline_run.3 man/tutti_pipeline_steps.3
dist_man_MANS += man/tutti_training.7 \
	man/tutti_reducer_create.3 man/tutti_reducer_free.3 man/tutti_reducer_ready.3 \
	man/tutti_reducer_finish.3 man/tutti_reducer_accumulate.3 man/tutti_reducer_unused.3 \
	man/tutti_reducer_stats.3 man/tutti_reducer_bucket.3 man/tutti_reducer_save.3 \
	man/tutti_reducer_restore.3
dist_man_MANS += man/gpt.1 man/rl.1 man/tutti_tutorial.7
