"""Convex clustering: the problem, its path over growing strengths, and the tree in which clusters merge."""
