"""Stages that fail: quarantine, and the way back."""
