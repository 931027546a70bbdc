"""What a stream would have cost at the least: three prices found in hindsight, and a lower bound.

`mixture` is the best blocks and rows found, `matrix` the best measurements of any shape on small
domains, `bound` what no measurements can go below. None of them is a method: they know the stream.
"""
