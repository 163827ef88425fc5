# SPDX-License-Identifier: BSD-3-Clause
# test_plan: the all-reduces, proved; test_count: and counted; test_colls, test_colls_count: all
# other collectives; test_check: the checker finds planted faults; test_choose: TUTTI_ALGO and the
# defaults; test_huge: of terabytes; test_sim: the simulator, sim.sh: its program, pipeline.sh: of
# pipelines; explain.sh: of parameter servers; test_cost: the costs against it; test_tune: tuning
# tables; test_hier: plans in two levels; test_codec_plans, test_codec_costs: all-reduces with
# codecs; test_neighbors: neighbours in graphs; test_orders: calls at once, in any order of their
# pieces.
check_PROGRAMS += tests/plan/test_plan tests/plan/test_colls tests/plan/test_check \
	tests/plan/test_choose \
	tests/plan/test_count tests/plan/test_colls_count tests/plan/test_sim tests/plan/test_huge \
	tests/plan/test_cost tests/plan/test_tune tests/plan/test_hier tests/plan/test_codec_plans \
	tests/plan/test_codec_costs tests/plan/test_neighbors tests/plan/test_orders
TESTS += tests/plan/test_plan tests/plan/test_colls tests/plan/test_check tests/plan/test_choose \
	tests/plan/test_count tests/plan/test_colls_count tests/plan/test_sim tests/plan/test_huge \
	tests/plan/test_cost tests/plan/test_tune tests/plan/test_hier tests/plan/test_codec_plans \
	tests/plan/test_codec_costs tests/plan/test_neighbors tests/plan/test_orders
dist_check_SCRIPTS += tests/plan/sim.sh tests/plan/pipeline.sh tests/plan/explain.sh
TESTS += tests/plan/sim.sh tests/plan/pipeline.sh tests/plan/explain.sh
tests_plan_test_plan_SOURCES = tests/plan/test_plan.c tests/plan/whole.h tests/plan/forms.h
tests_plan_test_plan_LDADD = libtttest.la
tests_plan_test_colls_SOURCES = tests/plan/test_colls.c tests/plan/whole.h
tests_plan_test_colls_LDADD = libtttest.la
tests_plan_test_orders_SOURCES = tests/plan/test_orders.c tests/plan/whole.h
tests_plan_test_orders_LDADD = libtttest.la
tests_plan_test_colls_count_SOURCES = tests/plan/test_colls_count.c
tests_plan_test_colls_count_LDADD = libtttest.la
tests_plan_test_check_SOURCES = tests/plan/test_check.c tests/plan/whole.h
tests_plan_test_check_LDADD = libtttest.la
tests_plan_test_choose_SOURCES = tests/plan/test_choose.c
tests_plan_test_choose_LDADD = libtttest.la
tests_plan_test_count_SOURCES = tests/plan/test_count.c
tests_plan_test_count_LDADD = libtttest.la
tests_plan_test_sim_SOURCES = tests/plan/test_sim.c
tests_plan_test_sim_LDADD = libtttest.la
tests_plan_test_huge_SOURCES = tests/plan/test_huge.c tests/plan/whole.h
tests_plan_test_huge_LDADD = libtttest.la
tests_plan_test_cost_SOURCES = tests/plan/test_cost.c
tests_plan_test_cost_LDADD = libtttest.la
tests_plan_test_tune_SOURCES = tests/plan/test_tune.c
tests_plan_test_tune_LDADD = libtttest.la
tests_plan_test_hier_SOURCES = tests/plan/test_hier.c tests/plan/whole.h
tests_plan_test_hier_LDADD = libtttest.la
tests_plan_test_codec_plans_SOURCES = tests/plan/test_codec_plans.c tests/plan/codec_plans.h \
	tests/plan/whole.h tests/plan/forms.h
tests_plan_test_codec_plans_LDADD = libtttest.la
tests_plan_test_codec_costs_SOURCES = tests/plan/test_codec_costs.c tests/plan/codec_plans.h
tests_plan_test_codec_costs_LDADD = libtttest.la
tests_plan_test_neighbors_SOURCES = tests/plan/test_neighbors.c
tests_plan_test_neighbors_LDADD = libtttest.la
