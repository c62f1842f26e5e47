"""Curves: an encoder at several strengths, or blended by several weights, as one."""
