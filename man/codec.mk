# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_codec.7 \
	man/tutti_codec_create.3 man/tutti_codec_create_user.3 man/tutti_codec_free.3 \
	man/tutti_codec_name.3 man/tutti_codec_chosen.3 man/tutti_codec_encode.3 \
	man/tutti_codec_decode.3 man/tutti_codec_decode_add.3 man/tutti_codec_bound.3 \
	man/tutti_codec_states.3 \
	man/tutti_feedback_create.3 man/tutti_feedback_free.3 man/tutti_feedback_reset.3 \
	man/tutti_feedback_save.3 man/tutti_feedback_restore.3 \
	man/tutti_allreduce_factors.3 \
	man/tutti_power_sgd_create.3 man/tutti_power_sgd_free.3 man/tutti_power_sgd_allreduce.3 \
	man/tutti_power_sgd_elements.3 man/tutti_power_sgd_save.3 man/tutti_power_sgd_restore.3
