"""Memories as a careful user would write them, each with the plain driver of its store.

An audit that finds fault with one of these is wrong. Each provides every part that a class can:
threads, users with versions, tasks, workflows, locks with fences, metrics and sizes.
"""
