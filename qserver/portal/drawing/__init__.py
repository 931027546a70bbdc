"""Where the parts of drawings in a page stand; no pixels and no style, which pages have."""
