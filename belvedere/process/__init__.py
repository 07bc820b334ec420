"""Services of a process besides its work: its folders and files, its current activity, traces."""
