"""Plots: data in, SVG text out. Pure, without a plotting library.

Text and axes have the colour of the surrounding text, so that a plot set into a page is light or
dark with it; series differ by colour and by dashes. A file brings its own background.
"""
