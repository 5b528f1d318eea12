"""Trivial templates for tests of batches, written where a test says."""

import nbformat

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_notebook(path, *sources, tag="parameters"):
    """Write a notebook of code cells, of which the first has a tag."""
    tags = {"tags": [tag]} if tag else {}
    cells = [nbformat.v4.new_code_cell(sources[0], metadata=tags)]
    cells += [nbformat.v4.new_code_cell(source) for source in sources[1:]]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), path)
    return path
