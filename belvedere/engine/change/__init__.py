"""What becomes of a store when its script or its sources have changed."""
