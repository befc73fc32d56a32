"""What a notebook imports: checks, pictures and the numbers of the running example."""
