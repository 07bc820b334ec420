"""Services of a process besides its work: its folders and files, its present activity, traces."""
