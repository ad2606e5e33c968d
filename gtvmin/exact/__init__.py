"""A problem in exact arithmetic: its numbers, duals that are feasible without rounding, and directed roundings."""
