# make course: publish everything and grade a sample class.  make test: all checks.
PYTHON ?= python3
RUN := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup course publish sample test bench-grade bench-train bench-notebooks lint requirements clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup:  ## Make .venv with what requirements.txt pins
	@$(PYTHON) autograder/environment.py

course: sample  ## Publish the course and grade a sample class (the main job)

publish: setup  ## Reference package, student notebooks, site
	@$(RUN) -m autograder publish

sample: publish  ## Grade the sample class that is made from each chapter
	@$(RUN) -m autograder sample

test: lint publish  ## Run all tests
	@$(RUN) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

bench-grade: publish  ## Measure: this grader against nbgrader autograde, about ten minutes
	@$(RUN) benchmarks/grade.py

bench-train: publish  ## Measure: training and decoding, against torch.nn.Transformer, about ten minutes
	@$(RUN) benchmarks/train.py

bench-notebooks: publish  ## Measure: does every notebook take the time and memory that its page says?
	@$(RUN) benchmarks/notebooks.py

lint: setup  ## Style and types
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy

requirements: setup  ## Compile requirements.txt from requirements.in
	@$(RUN) -m piptools compile --quiet --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--no-emit-options --strip-extras --annotation-style=line --allow-unsafe --output-file=requirements.txt requirements.in
	@sed -i "s/+cpu//" requirements.txt  # a local build of PyTorch must not be asked for by name

clean:  ## Remove everything that was built (marks and submissions stay)
	rm -rf _build mytransformer solutions/*/*.ipynb
