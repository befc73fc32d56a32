"""What an instructor runs: publish the course, grade a class, read the report."""
