"""What a process does beside its work: its folders and files, what it is doing now, traces."""
