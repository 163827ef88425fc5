/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binary trees of the double-tree algorithms.
 *
 *	 0 ──────┐          The level of v is its lowest set bit; the parent has the next bit set
 *	         4          instead. Read in order, the tree is 0, 1, 2, ...; 0 has one kid, on the
 *	     ┌───┴───┐      right, and odd numbers are leaves.
 *	     2       6
 *	   ┌─┴─┐   ┌─┴─┐
 *	   1   3   5   7
 */
#ifndef TT_BINARY_TREE_H
#define TT_BINARY_TREE_H

#include "lib/coll/coll.h"

/* The neighbours of a node; -1: no node. */
struct tt_tree {
	int up, left, right;
};

int tt_tree_up(int n, int v); /* v > 0 */
struct tt_tree tt_tree(int n, int v);

/*
 * Two trees for a rooted collective: ranks in the place of numbers, the root at the top of both.
 * In the second tree all numbers but 0 are mirrored (odd n) or shifted (even n), so odd numbers
 * become even, and an inner node of one tree is a leaf of the other. Each tree has half of the
 * vector and every second lane: slice i goes over tree i % 2. With a single lane everything goes
 * over the first tree.
 */
struct tt_tree tt_rooted_tree(const struct tt_plan_args *a, size_t slice);
int tt_tree_lanes(const struct tt_plan_args *a, size_t slices);
size_t tt_tree_slices(const struct tt_plan_args *a);
struct tt_span tt_tree_slice(const struct tt_plan_args *a, size_t slices, size_t i);
bool tt_tree_full(const struct tt_plan_args *a, size_t slices); /* no slice is empty */

#endif
