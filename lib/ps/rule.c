/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a push does to a value. float64 is computed in double, all other floats in float, to which 16-bit
 * values are widened and from which they are rounded; the state of a rule has the precision of the computation.
 */
#include <math.h>
#include <string.h>

#include "lib/ps/ps.h"

#define REAL float
#define SQRT sqrtf
#define NAME(what) what##_f32
#include "lib/ps/rule_loops.h"
#undef REAL
#undef SQRT
#undef NAME
#define REAL double
#define SQRT sqrt
#define NAME(what) what##_f64
#include "lib/ps/rule_loops.h"

#define PIECE 256 /* 16-bit values widened at once */

const char *tt_ps_rule_name(int rule)
{
	static const char *const name[TUTTI_PS_NUM_RULES] = {
		"sum", "assign", "SGD", "momentum", "Nesterov",
		"Adagrad", "RMSProp", "Adam", "AdamW", "callback"};

	return name[rule];
}

int tt_ps_rule_states(int rule)
{
	switch (rule) {
	case TUTTI_PS_MOMENTUM:
	case TUTTI_PS_NESTEROV:
	case TUTTI_PS_ADAGRAD:
	case TUTTI_PS_RMSPROP:
		return 1;
	case TUTTI_PS_ADAM:
	case TUTTI_PS_ADAMW:
		return 2;
	default:
		return 0;
	}
}

size_t tt_ps_state_size(enum tutti_datatype datatype)
{
	return datatype == TUTTI_FLOAT64 ? sizeof(double) : sizeof(float);
}

static void apply_16(const struct tutti_ps_table *t, uint16_t *x, const uint16_t *u, float *s1,
		     float *s2, size_t count, uint64_t step)
{
	bool half = t->datatype == TUTTI_FLOAT16;
	float fx[PIECE], fu[PIECE];
	size_t at, n, i;

	for (at = 0; at < count; at += n) {
		n = count - at < PIECE ? count - at : PIECE;
		for (i = 0; i < n; i++) {
			fx[i] = half ? tt_f16_to_f32(x[at + i]) : tt_bf16_to_f32(x[at + i]);
			fu[i] = half ? tt_f16_to_f32(u[at + i]) : tt_bf16_to_f32(u[at + i]);
		}
		apply_f32(&t->opt, fx, fu, s1 ? s1 + at : NULL, s2 ? s2 + at : NULL, n, step);
		for (i = 0; i < n; i++)
			x[at + i] = half ? tt_f32_to_f16(fx[i]) : tt_f32_to_bf16(fx[i]);
	}
}

void tt_ps_apply(const struct tutti_ps_table *t, void *value, const void *update, void *state1,
		 void *state2, size_t count, uint64_t step)
{
	const void *both[] = {value, update};

	switch (t->opt.rule) {
	case TUTTI_PS_SUM:
		tt_reduce_multi(&value, 1, both, 2, count, t->datatype, TUTTI_SUM, 0, 0);
		break;
	case TUTTI_PS_ASSIGN:
		memcpy(value, update, count * t->elem);
		break;
	case TUTTI_PS_CALLBACK:
		t->opt.update(value, update, count, t->datatype, t->opt.arg);
		break;
	default:
		if (t->datatype == TUTTI_FLOAT64)
			apply_f64(&t->opt, value, update, state1, state2, count, step);
		else if (t->datatype == TUTTI_FLOAT32)
			apply_f32(&t->opt, value, update, state1, state2, count, step);
		else
			apply_16(t, value, update, state1, state2, count, step);
	}
}
