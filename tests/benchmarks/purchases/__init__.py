"""The spend on one stream, question by question: the figure that shows when blocks are bought."""
