"""Make `docs/gallery`: the outputs of the analyses, run on the days of their parameters.

A page has the text of a notebook, the outputs of its cells, and its charts as pictures. Next to it,
in `data`, are the texts and numbers of each chart. Tests compare those, never the pictures, which
differ with every version of a library.
"""
