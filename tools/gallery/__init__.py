"""Makes `docs/gallery`: what the analyses show, run on the days that their parameters name.

A page has a notebook's words, what its cells printed and its charts as pictures. Beside it, in
`data`, are the texts and the numbers behind each chart: those are compared, and never the pictures,
which differ with every version of a library.
"""
